// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// When copies are renewed: under SSP a worker reads from a copy until that is too old, and then waits for another one.
// Renewed while the worker computes, copies are fresher, and nobody waits for them; renewed when they are half as old as
// they may be, they cost less. Prints what the conformance test says, then of each protocol the mean age of what was read,
// in clocks, how often a worker asked the servers, and how long it waited and sent.
#include <chrono>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/testing/conformance.hpp>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

struct half_way {
  std::int64_t bound;
  bool renews(rb::read_point at) const noexcept { return 2 * at.age.clocks() >= bound; }
};
static_assert(rb::read_policy<half_way>);

void run(char const* name, rb::rules const& protocol) {
  // Steps of 10 ms, more or less; a server answers after 4 ms.
  rb::simulated const plan{.workers = 6,
                           .scenario = {.speed = {.work_cost = 10ms, .jitter = rb::sim::uniform{0.9, 1.1}},
                                        .network = {.worker_link = {.latency = 2ms}}}};
  rb::cluster cluster{plan, protocol, rb::dense<float>{.rows = 1}};
  auto const report = cluster.run([](auto& worker) {
    std::vector<float> w(1), delta(1, 0.1F);
    for (int clock = 0; clock < 100; ++clock) {
      worker.pull(w);
      worker.push(delta);
      worker.step();
    }
  });
  auto const total = report.total();
  double age = 0, reads = 0;
  for (std::size_t clocks = 0; clocks < total.staleness.size(); ++clocks) {
    age += static_cast<double>(clocks) * static_cast<double>(total.staleness[clocks]);
    reads += static_cast<double>(total.staleness[clocks]);
  }
  std::printf("%-8s %.1f clocks, asked %.0f times, %.0f ms\n", name, age / reads,
              static_cast<double>(total.fetches) / 6,
              std::chrono::duration<double, std::milli>(total.wait + total.send).count() / 6);
}

int main() {
  auto const half = rb::with(rb::ssp{.staleness = 8}, half_way{8});
  auto const violations = rb::testing::check_protocol(half);
  std::printf("%zu violations\n", violations.size());
  for (auto const& sentence : violations) std::printf("  %s\n", sentence.c_str());
  run("ssp", rb::ssp{.staleness = 8});
  run("half way", half);
  run("essp", rb::essp{.staleness = 8});
}
