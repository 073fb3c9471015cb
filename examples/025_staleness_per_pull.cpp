// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A staleness for one pull: training reads parameters that may lag by up to eight clocks; every twentieth
// clock a worker looks at fresh ones, waits for them, and evaluates. Each worker counts its clocks in a row of
// its own, so what a pull shows says how old it was.
#include <chrono>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

int main() {
  rb::simulated const plan{.workers = 3, .scenario = {.speed = {.work_cost = 1ms, .slowness = {1, 1, 2}}}};
  rb::cluster cluster{plan, rb::ssp{.staleness = 8}, rb::dense<float>{.rows = 3}};

  auto const report = cluster.run([](auto& worker) {
    std::vector<float> clocks(3), one(3);
    one[worker.rank()] = 1;
    for (int clock = 0; clock < 60; ++clock) {
      bool const evaluates = clock % 20 == 19;
      if (evaluates) worker.pull(clocks, rb::staleness{0});  // at most the protocol's
      else worker.pull(clocks);
      if (worker.rank() == 0 && clock % 20 >= 18)
        std::printf("clock %d, %s: worker 2 seen at clock %g\n", clock, evaluates ? "fresh" : "stale",
                    static_cast<double>(clocks[2]));
      worker.push(one);
      worker.step();
    }
  });
  std::printf("worker 0 waited for %.0f ms in all\n", 1e3 * rb::to_seconds(report.workers[0].wait));
}
