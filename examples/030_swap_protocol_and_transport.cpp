// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The same training body under another protocol and another transport: each run differs from the
// next in one line. Prints for each how long eight workers took, two of them three times slower, and
// how far the sum of their updates came.
#include <chrono>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

auto const body = [](auto& worker) {
  std::vector<float> w(100), update(100, 1.0F);
  for (int i = 0; i < 50; ++i) {
    worker.pull(w);
    worker.push(update);
    worker.step(1.0);
  }
};

void train(char const* name, auto transport, auto protocol) {
  rb::cluster cluster{transport, protocol, rb::dense<float>{.rows = 100}};
  rb::run_report const r = cluster.run(body);
  std::printf("%-26s %4zu updates, every parameter %3.0f, ", name,
              static_cast<std::size_t>(r.updates), double{cluster.parameters()[0]});
  if (r.virtual_time)
    std::printf("%6.1f ms, %2.0f%% of it waiting\n", 1e3 * rb::to_seconds(r.elapsed),
                100 * rb::to_seconds(r.total().wait) / rb::to_seconds(r.total().total()));
  else
    std::printf("in wall time\n");
}

int main() {
  rb::simulated const plan{.workers = 8,
                           .servers = 2,
                           .scenario = {.speed = {.work_cost = 1ms, .slowness = {1, 1, 1, 1, 1, 1, 3, 3}}}};

  train("bsp, simulated", plan, rb::bsp{});
  train("ssp, simulated", plan, rb::ssp{.staleness = 3});
  train("asp, simulated", plan, rb::asp{});
  train("con_sgd, simulated", plan, rb::con_sgd{.staleness = 3});
  train("con_sgd, threads", rb::in_process{.workers = 8, .servers = 2}, rb::con_sgd{.staleness = 3});
}
