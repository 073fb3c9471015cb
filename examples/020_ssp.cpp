// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Logistic regression under SSP: nobody runs more than three clocks ahead of the slowest worker, and
// one of the four takes twice as long as the others.
//   020_ssp FILE    trains on a LIBSVM file, a9a say; without one, on synthetic data
#include <cstdio>
#include <rubato/data/libsvm.hpp>
#include <rubato/data/synthetic.hpp>
#include <rubato/model/linear.hpp>
#include <rubato/rubato.hpp>
#include <string>
#include <vector>

namespace rb = rubato;

int main(int argc, char** argv) try {
  auto const data = (argc > 1 ? rb::data::read_libsvm(argv[1]) : rb::data::make_synthetic()).shuffled(1);
  auto const [train, test] = data.split(0.2, 1);
  rb::model::logistic_regression<float> const model{.l2 = 1e-5};

  rb::cluster cluster{rb::in_process{.workers = 4, .servers = 2, .slowness = {1, 1, 1, 2}},
                      rb::with(rb::ssp{.staleness = 3}, rb::every{10}),
                      rb::dense<float>{.rows = train.features()}};

  auto const report = cluster.run([&, &train = train](auto& worker) {
    auto const batches = train.shard(worker.rank(), worker.count()).batches(rb::data::fraction{0.1});
    std::vector<float> w(train.features()), delta(train.features());
    for (std::size_t step = 0; step < 20 * batches.size(); ++step) {
      auto const batch = batches.at_step(step);
      worker.pull(w);  // the worker's replica: from a server only when it has become too stale
      model.local_step(batch, 0.5, w, delta);
      worker.push(delta);
      worker.step(static_cast<double>(batch.size()));  // every tenth commits
    }
  });

  auto const& w = cluster.parameters();
  std::printf("%zu rows, %zu features\n", data.size(), data.features());
  std::printf("objective %.3f, accuracy on held-out rows %.1f%%\n", model.objective(train, w),
              100 * model.accuracy(test, w));
  rb::worker_metrics const total = report.total();
  std::printf("%zu updates, %zu of %zu reads went to a server\n",
              static_cast<std::size_t>(report.updates), static_cast<std::size_t>(total.fetches),
              static_cast<std::size_t>(total.pulls));
} catch (rb::error const& e) {
  std::fprintf(stderr, "020_ssp: %s\n", e.what());
  return 1;
}
