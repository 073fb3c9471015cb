// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <chrono>

#include "rubato/testing/schedule.hpp"

namespace rubato::testing {

namespace detail {

sim::distribution random_jitter(random_stream& random) {
  switch (random.below(5)) {
    case 0:
      return sim::uniform{.low = 0, .high = 2};
    case 1:
      return sim::exponential{};
    case 2:
      return sim::lognormal{.median = 1, .sigma = 1};
    case 3:
      return sim::pareto{.least = 0.2, .alpha = 1.1, .cap = 50};
    default:
      return {};
  }
}

sim::speed_options random_speed(random_stream& random, std::uint32_t workers) {
  using namespace std::chrono_literals;
  sim::speed_options speed;
  speed.work_cost = one_of(random, std::array<duration, 4>{0ns, 10us, 1ms, 1ms});
  if (random.chance(0.5))
    for (std::uint32_t w = 0; w < workers; ++w)
      speed.slowness.push_back(one_of(random, std::array{0.1, 0.5, 1.0, 1.0, 1.5, 3.0, 20.0}));
  if (random.chance(0.5))
    speed.heterogeneity = {.level = 1.0 + 4 * random.uniform(), .slow_fraction = random.uniform()};
  if (random.chance(0.3)) speed.random_slowdown = sim::random_slowdown::hop(workers);
  speed.jitter = random_jitter(random);
  if (random.chance(0.3))
    speed.changes.push_back({.worker = worker_id{static_cast<std::uint32_t>(random.below(workers))},
                             .at = 1ms * static_cast<std::int64_t>(random.below(10)),
                             .factor = 10});
  return speed;
}

sim::network_options random_network(random_stream& random) {
  using namespace std::chrono_literals;
  sim::network_options network;
  network.worker_link.latency =
      one_of(random, std::array<duration, 6>{0ns, 1ns, 10us, 100us, 1ms, 30ms});
  network.worker_link.jitter = random_jitter(random);
  // 0 is infinite; at 100 kB/s a commit takes longer than a step, so losses hit it in the middle.
  std::array<std::uint64_t, 5> const bandwidths{0, 0, 100'000, 1'000'000, 1'000'000'000};
  network.worker_link.bandwidth = one_of(random, bandwidths);
  network.server_bandwidth = one_of(random, bandwidths);
  return network;
}

inline manner random_manner(random_stream& random, schedule_limits const& limits,
                            std::int64_t clocks) {
  std::array const chances{0.0, 0.3, 0.8, 1.0, 1.0};
  manner m;
  m.clocks = limits.leaves && random.chance(0.4)
                 ? static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(clocks) + 1))
                 : clocks;
  m.steps = 1 + random.below(3);
  m.pushing = one_of(random, chances);
  m.reading = one_of(random, chances);
  m.own_staleness = one_of(random, std::array{0.0, 0.0, 0.5});
  m.tables = random.chance(0.4) ? 31 : 1 + random.below(31);
  m.marks = random.chance(0.2);
  return m;
}

/// Some machines get several workers, which share a process. They die with it: so all of them mark their pushes
/// where one is to.
void put_into_processes(random_stream& random, schedule& s) {
  s.scenario.one_process_per_machine = true;
  std::vector<std::uint32_t>& machine_of = s.scenario.machine_of;
  for (std::uint32_t w = 0; w < s.workers_ever(); ++w)
    machine_of.push_back(static_cast<std::uint32_t>(random.below(1 + s.workers_ever() / 2)));
  for (sim::crash const& c : s.scenario.crashes)
    for (std::uint32_t w = 0; w < s.workers_ever(); ++w)
      if (machine_of[w] == machine_of[c.worker.index()]) s.manners[w].marks = true;
}

}  // namespace detail

schedule random_schedule(std::uint64_t seed, schedule_limits const& limits) {
  using namespace std::chrono_literals;
  random_stream random(seed, 0x5eed);
  schedule s;
  s.seed = seed;
  s.workers = 1 + static_cast<std::uint32_t>(random.below(limits.workers_max));
  if (limits.workers != 0) s.workers = limits.workers;
  s.servers = detail::one_of(random, std::array<std::uint32_t, 4>{1, 2, 2, 7});
  s.commits_by_hand = random.chance(0.7);
  s.scenario.seed = seed;
  s.scenario.network = detail::random_network(random);
  s.scenario.detection_delay = detail::one_of(random, std::array<duration, 4>{0ns, 1ms, 50ms, 1s});
  std::int64_t const clocks =
      1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(limits.clocks_max)));
  // About when things happen: somewhere within the run.
  duration const step = 1ms + 4 * s.scenario.network.worker_link.latency;
  auto const sometime = [&] { return stretch(step * clocks, random.uniform()); };
  if (limits.joins && random.chance(0.4))
    for (std::uint64_t n = 1 + random.below(3); n != 0; --n)
      s.scenario.joins.push_back({sometime()});
  s.scenario.speed = detail::random_speed(random, s.workers_ever());
  for (std::uint32_t w = 0; w < s.workers_ever(); ++w)
    s.manners.push_back(detail::random_manner(random, limits, clocks));
  if (limits.crashes && random.chance(0.4))
    for (std::uint32_t w = 0; w < s.workers_ever(); ++w)
      if (random.chance(0.3)) {
        s.scenario.crashes.push_back({.worker = worker_id{w}, .at = sometime()});
        s.manners[w].marks = true;
      }
  if (limits.processes && random.chance(0.8)) detail::put_into_processes(random, s);
  auto const& net = s.scenario.network;
  s.prompt = net.worker_link.jitter.is_constant() && net.worker_link.bandwidth == 0 &&
             net.server_bandwidth == 0;
  return s;
}

}  // namespace rubato::testing
