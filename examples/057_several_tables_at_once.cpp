// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Several tables in one read: the rows of an embedding that a batch names, and two layers as wholes. Each pull by
// itself would be a round trip; together they are one, and the worker waits for the others once.
#include <chrono>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

/// Ten clocks of two workers, 5 ms away from their server. Returns how long they take.
double train(bool together) {
  rb::simulated plan{.workers = 2, .scenario = {.speed = {.work_cost = 1ms}}};
  plan.scenario.network.worker_link.latency = 5ms;
  rb::cluster cluster{plan, rb::bsp{}, rb::sparse<float>{.width = 4}, rb::dense<float>{.rows = 8},
                      rb::dense<float>{.rows = 3}};
  auto const report = cluster.run([&](auto& worker) {
    auto const embedding = worker[rb::table<0>];
    auto const hidden = worker[rb::table<1>];
    auto const bias = worker[rb::table<2>];
    std::vector<float> rows(8), weights(8), offsets(3);
    for (unsigned clock = 0; clock < 10; ++clock) {
      std::vector<unsigned> const words{1'000'003 * clock, 7 + worker.rank()};
      if (together) {
        worker.pull_together({embedding.into(words, rows), hidden.into(weights), bias.into(offsets)});
      } else {
        embedding.pull(words, rows);
        hidden.pull(weights);
        bias.pull(offsets);
      }
      embedding.push(words, std::vector<float>(8, 0.5F));
      hidden.push(std::vector<float>(8, 1.0F));
      bias.push(std::vector<float>(3, 2.0F));
      worker.step();
    }
  });
  double const weight = cluster.parameters<1>().front(), offset = cluster.parameters<2>().front();
  std::printf("%s: the layers end with %g and %g\n", together ? "together" : "one by one", weight, offset);
  return rb::to_seconds(report.elapsed);
}

int main() {
  double const singly = train(false);
  double const at_once = train(true);
  std::printf("one by one %.0f ms, together %.0f ms\n", 1e3 * singly, 1e3 * at_once);
}
