// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Logistic regression with SVRG: a stage of many workers computes the full gradient, a stage of as many as
// pay off takes small steps that the gradient makes steady; in turn, until the loss is low enough.
//   rubato-launch -n 2 -s 1 -- 150_stages
// trains across processes; worker 0 first does so in process and in the simulator.
#include <algorithm>
#include <cstdio>
#include <rubato/data/synthetic.hpp>
#include <rubato/model/linear.hpp>
#include <rubato/rubato.hpp>
#include <rubato/task/engine.hpp>
#include <rubato/transport/tcp.hpp>
#include <vector>

namespace rb = rubato;
using vec = std::vector<float>;

constexpr std::size_t n = 200;
rb::data::dataset const rows = rb::data::make_synthetic({.rows = 4000, .features = n, .nonzeros_per_row = 20});
rb::model::linear_model<rb::model::logistic_loss> const model{.l2 = 1e-3};

constexpr double target = 0.47;

/// Table 0 is w, table 1 the point at which the full gradient was computed, table 2 that gradient.
void full_gradient(auto& worker, rb::task_core& svrg) {
  vec w(n), gradient(n);
  worker.pull(w);
  if (worker.rank() == 0 && model.objective(rows, w) < target) svrg.stop();  // for all, in all processes
  auto const mine = rows.shard(worker.rank(), worker.count());
  model.gradient(mine, w, gradient);
  float const share = static_cast<float>(mine.size()) / static_cast<float>(rows.size());
  for (float& g : gradient) g *= share;
  worker[rb::table<2>].push(gradient);
  worker.step(static_cast<double>(mine.size()));
}

void small_steps(auto& worker, rb::iteration_range todo) {
  constexpr std::size_t batch = 16;
  vec w(n), point(n), full(n), here(n), there(n), delta(n);
  worker[rb::table<1>].pull(point);
  worker[rb::table<2>].pull(full);
  auto const m = static_cast<float>(worker.count());  // sums of M such steps are one of a batch M times as large
  for (std::int64_t i : todo) {
    worker.pull(w);
    std::size_t const turn = static_cast<std::size_t>(i) * worker.count() + worker.rank();
    auto const some = rows.rows().slice(turn * batch % (rows.size() - batch + 1), batch);
    model.gradient(some, w, here);
    model.gradient(some, point, there);
    for (std::size_t k = 0; k < n; ++k) delta[k] = -4.0F / m * (here[k] - there[k] + full[k]);
    worker.push(delta);
    worker.step(batch);
  }
}

template <class Transport>
void train(char const* where, Transport const& transport, bool prints) {
  rb::engine engine{transport};
  rb::task svrg{rb::dense<float, rb::sum>{.rows = n}, rb::dense<float, rb::sum>{.rows = n},
                rb::dense<float, rb::sum>{.rows = n}};
  auto const full = svrg.stage({.workers = 4, .copied = {{.to = 1, .from = 0}}, .cleared = {2}},
                               [&svrg](auto& w) { full_gradient(w, svrg); });
  auto const inner = svrg.stage({.workers = rb::automatic, .protocol = rb::ssp{.staleness = 2}, .iterations = 100},
                                [](auto& w, rb::iteration_range todo) { small_steps(w, todo); });
  svrg.repeat(100, full, inner);
  auto const report = engine.submit(svrg).wait();
  if (!prints) return;
  std::printf("%s: loss %.2f after %zu stages%s\n", where, model.objective(rows, svrg.parameters()),
              report.stages.size(), report.stopped ? ", stopped" : "");
}

int main() {
  auto const across = rb::tcp::from_environment(2);
  bool const first = across.place.as == rb::net::role::worker && across.place.rank == 0;
  if (first) {
    train("in process", rb::in_process{.workers = 4}, true);
    train("simulated", rb::simulated{.workers = 4}, true);
  }
  train("across processes", across, first);
}
