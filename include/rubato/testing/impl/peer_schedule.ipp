// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <span>
#include <utility>

#include "rubato/core/random.hpp"
#include "rubato/peer/topologies.hpp"
#include "rubato/testing/peer_schedule.hpp"
#include "rubato/testing/schedule.hpp"

namespace rubato::testing {

namespace detail {

/// A tree, and on top each other edge with probability `density`: connected, of any shape.
inline graph random_undirected(random_stream& random, std::uint32_t n, double density) {
  std::vector<std::vector<std::uint32_t>> out(n);
  for (std::uint32_t i = 1; i < n; ++i) {
    auto const parent = static_cast<std::uint32_t>(random.below(i));
    for (std::uint32_t j = 0; j < i; ++j)
      if (j == parent || random.chance(density)) {
        out[i].push_back(j);
        out[j].push_back(i);
      }
  }
  return graph::from_numbers(out, "random");
}

mixing_matrix random_directed(random_stream& random, std::uint32_t n) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  Eigen::MatrixXd sum = Eigen::MatrixXd::Zero(n, n);
  double total = 0;
  auto const add = [&](auto const& target_of) {
    auto const weight = static_cast<double>(1 + random.below(4));
    for (std::uint32_t i = 0; i < n; ++i) sum(i, target_of(i)) += weight;
    total += weight;
  };
  add([](std::uint32_t i) { return i; });
  random.shuffle(std::span(order));
  std::vector<std::uint32_t> next(n);
  for (std::uint32_t i = 0; i < n; ++i) next[order[i]] = order[(i + 1) % n];
  add([&](std::uint32_t i) { return next[i]; });
  for (std::uint64_t more = random.below(4); more != 0; --more) {
    random.shuffle(std::span(order));
    add([&](std::uint32_t i) { return order[i]; });
  }
  Eigen::MatrixXd const weights = sum / total;
  return mixing_matrix::given(graph_of(weights), weights);
}

inline mixing_matrix random_mixing(random_stream& random, std::uint32_t n, bool directed) {
  switch (random.below(directed ? 13 : 8)) {
    case 0:
      return mixing_matrix::automatic(ring(n));
    case 1:
      return mixing_matrix::automatic(ring_based(n));
    case 2:
      return mixing_matrix::automatic(star(n));
    case 3:
      return mixing_matrix::automatic(parse_graph("grid", n));
    case 4:
      return mixing_matrix::automatic(complete(std::min(n, 10U)));  // else it is all messages
    case 5:
      return mixing_matrix::automatic(random_undirected(random, n, 0));
    case 6:
    case 7:
      return mixing_matrix::automatic(random_undirected(random, n, 2.0 / n));
    case 8:
      return mixing_matrix::automatic(exponential(n));
    case 9:
      return mixing_matrix::automatic(directed_ring(n));
    default:
      return random_directed(random, n);
  }
}

std::size_t fewest_in(graph const& g) {
  std::size_t fewest = g.size();
  for (std::uint32_t i = 0; i < g.size(); ++i) fewest = std::min(fewest, g.in(worker_id{i}).size());
  return fewest;
}

/// A complete graph, where chance does not find one with as many in-neighbors as it must have.
inline mixing_matrix fitting_mixing(random_stream& random, std::uint32_t n,
                                    peer_schedule_limits const& limits) {
  for (int tries = 0; tries < 10; ++tries) {
    mixing_matrix m = random_mixing(random, n, limits.directed);
    if (fewest_in(m.topology()) >= limits.in_min) return m;
  }
  return mixing_matrix::automatic(complete(static_cast<std::uint32_t>(limits.in_min) + 1));
}

/// Some peers share machines. Within one, and between them, messages of one sender often overtake
/// those of another.
inline sim::network_options random_peer_network(random_stream& random) {
  using namespace std::chrono_literals;
  sim::network_options network = random_network(random);
  network.local_link.latency = one_of(random, std::array<duration, 3>{0ns, 5us, 3ms});
  network.local_link.jitter = random_jitter(random);
  network.local_link.bandwidth =
      one_of(random, std::array<std::uint64_t, 3>{0, 100'000, 10'000'000});
  return network;
}

/// After how many of so many iterations a peer leaves. Before the very last is a case of its own.
inline std::int64_t random_leave(random_stream& random, std::int64_t iterations) {
  switch (random.below(6)) {
    case 0:
      return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(iterations)));
    case 1:
      return iterations - 1;
    default:
      return iterations;
  }
}

}  // namespace detail

peer_schedule random_peers(std::uint64_t seed, peer_schedule_limits const& limits) {
  using namespace std::chrono_literals;
  random_stream random(seed, 0x9ee5);
  // Most have few peers: what goes wrong then happens sooner, and is easier to understand.
  std::uint32_t const most = random.chance(0.7) ? std::min(limits.peers_max, 9U) : limits.peers_max;
  auto const n = 1 + static_cast<std::uint32_t>(random.below(most));
  peer_schedule s{.seed = seed, .mixing = detail::fitting_mixing(random, n, limits)};
  std::uint32_t const peers = s.peers();
  s.iterations =
      limits.iterations_min + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(
                                  limits.iterations_max - limits.iterations_min + 1)));
  s.scenario.seed = seed;
  s.scenario.network = detail::random_peer_network(random);
  s.scenario.speed = detail::random_speed(random, peers);
  if (random.chance(0.4))
    for (std::uint32_t i = 0; i < peers; ++i)
      s.scenario.machine_of.push_back(static_cast<std::uint32_t>(random.below(peers)));
  s.scenario.detection_delay = detail::one_of(random, std::array<duration, 4>{0ns, 1ms, 50ms, 1s});
  // About when things happen: somewhere within the run.
  duration const whole = s.iterations * (1ms + s.scenario.network.worker_link.latency);
  bool const crashes = limits.crashes && random.chance(0.4);
  bool const leaves = limits.leaves && random.chance(0.3);
  for (std::uint32_t i = 0; i < peers; ++i) {
    if (crashes && random.chance(0.3))
      s.scenario.crashes.push_back(
          {.worker = worker_id{i}, .at = stretch(whole, random.uniform())});
    if (leaves) s.leaves.push_back(detail::random_leave(random, s.iterations));
  }
  s.announced = random.chance(0.5);
  return s;
}

}  // namespace rubato::testing
