// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <chrono>

#include "bench/setup/scenario_file.hpp"

namespace rubato::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t gigabit = 125'000'000;  // bytes per second

/// The 40-node cluster of 000 §7.1, "1GB Ethernet" read as 1 Gbit/s. The price of a non-zero is the
/// paper's: Petuum's BSP on URL takes 134 s for 27 clocks of 2.4M x 500 values on 30 workers, 124
/// ns for each value with communication, of which 100 ns are taken as compute.
sim::scenario homogeneous() {
  return {.speed = {.work_cost = 100ns},
          .network = {.worker_link = {.latency = 100us, .bandwidth = gigabit},
                      .server_bandwidth = gigabit}};
}

/// Machines are never in lockstep: a twentieth of jitter on each step, a fifth on each message.
sim::scenario paper_cluster() {
  sim::scenario s = homogeneous();
  s.speed.jitter = sim::lognormal{.sigma = 0.05};
  s.network.worker_link.jitter = sim::lognormal{.sigma = 0.2};
  return s;
}

/// A cluster that others use too: steps that stall now and then, messages that take ten times as
/// long, one machine that is slow for a while.
sim::scenario flaky() {
  sim::scenario s = paper_cluster();
  s.speed.random_slowdown = {.probability = 1.0 / 30, .factor = 6};
  s.network.worker_link.jitter = sim::pareto{.least = 0.8, .alpha = 1.5, .cap = 50};
  s.speed.changes = {{.worker = worker_id(0), .at = 5ms, .factor = 4},
                     {.worker = worker_id(0), .at = 20ms, .factor = 1}};
  return s;
}

}  // namespace

std::vector<named_scenario> const& built_in_scenarios() {
  static std::vector<named_scenario> const all = {
      {"paper-cluster", "1 Gbit/s Ethernet, 100 us latency, 100 ns per value, a little jitter",
       paper_cluster},
      {"homogeneous", "the same without any jitter", homogeneous},
      {"flaky", "the same with stalls, slow messages and a machine that is slow for a while",
       flaky},
  };
  return all;
}

}  // namespace rubato::bench
