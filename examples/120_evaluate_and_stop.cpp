// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Evaluating while a run is under way, and ending it when the loss is low enough: the same in all three
// transports. Then what each process has when the run is over.
//   rubato-launch -n 2 -s 1 -- 120_evaluate_and_stop
// trains across processes; worker 0 first does so in process and in the simulator.
#include <cstdio>
#include <cstdlib>
#include <rubato/data/synthetic.hpp>
#include <rubato/model/linear.hpp>
#include <rubato/rubato.hpp>
#include <rubato/transport/tcp.hpp>
#include <vector>

namespace rb = rubato;

rb::data::dataset const rows = rb::data::make_synthetic({.rows = 2'000, .features = 50});
rb::model::logistic_regression<float> const model{.l2 = 1e-4};
constexpr double target = 0.5;
constexpr std::size_t steps_max = 100'000;

template <class Transport>
void train(char const* where, Transport const& transport) {
  rb::cluster cluster{transport, rb::ssp{.staleness = 2}, rb::dense<float>{.rows = rows.features()}};
  auto const report = cluster.run([&](auto& worker) {
    auto const batches = rows.shard(worker.rank(), worker.count()).batches(rb::data::fraction{0.05});
    std::vector<float> w(rows.features()), delta(w.size());
    for (std::size_t step = 0; step < steps_max; ++step) {
      worker.pull(w);
      model.local_step(batches.at_step(step), 0.1, w, delta);
      worker.push(delta), worker.step();
      if (worker.rank() == 0 && step % 20 == 19 && model.objective(rows, cluster.observe()) < target)
        cluster.stop();  // each worker's next call unwinds its body, this one's, too
    }
  });

  if (cluster.runtime().has_workers()) {  // in this process
    double const loss = model.objective(rows, cluster.parameters());
    std::printf("%s: %s the target, a report of %zu workers\n", where, loss < target ? "below" : "above",
                report.workers.size());
  } else {
    try {
      (void)cluster.parameters();
      std::exit(1);  // does not come to this: what serves has no parameters
    } catch (rb::usage_error const&) {
      std::printf("%s: served, a report of %zu workers\n", where, report.workers.size());
    }
  }
}

int main() try {
  auto const across = rb::tcp::from_environment();
  if (across.place.as == rb::net::role::worker && across.place.rank == 0) {
    train("in process", rb::in_process{.workers = 2});
    train("simulated", rb::simulated{.workers = 2});
  }
  train("across processes", across);
} catch (rb::error const& e) {
  std::fprintf(stderr, "120_evaluate_and_stop: %s\n", e.what());
  return 1;
}
