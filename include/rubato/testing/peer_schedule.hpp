// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/core/random.hpp"
#include "rubato/peer/graph.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/sim/scenario.hpp"

namespace rubato::testing {

/// Peers, what lies between them, what goes wrong, and who leaves: all that decides a run.
struct peer_schedule {
  std::uint64_t seed = 1;  ///< of the peers' random streams
  mixing_matrix mixing;  ///< the graph, with its weights
  std::int64_t iterations = 10;  ///< of those that do not leave
  sim::scenario scenario{};  ///< how fast they are, and what goes wrong
  /// By rank: how many iterations a peer makes, if less than the others; where the list ends, all.
  std::vector<std::int64_t> leaves{};
  /// Whether who leaves says so at once, and asks for fewer iterations; else it leaves the loop.
  bool announced = false;

  /// How many there are.
  [[nodiscard]] std::uint32_t peers() const noexcept { return mixing.topology().size(); }
  /// How many iterations a peer makes, and how many it asks for.
  [[nodiscard]] std::int64_t makes(std::uint32_t rank) const {
    return rank < leaves.size() ? std::min(leaves[rank], iterations) : iterations;
  }
  /// What it hands to `peer::iterations`.
  [[nodiscard]] std::int64_t asks_for(std::uint32_t rank) const {
    return announced ? makes(rank) : iterations;
  }
};

/// What schedules of peers may contain.
struct peer_schedule_limits {
  std::uint32_t peers_max = 32;  ///< the most peers
  std::size_t in_min = 0;  ///< the fewest in-neighbors of a peer: as many as its gather asks for
  std::int64_t iterations_min = 5;  ///< the fewest that peers make
  std::int64_t iterations_max = 25;  ///< the most that peers make
  bool directed = true;  ///< graphs with edges that have no reverse
  bool crashes = true;   ///< only for gathers that outlive a loss
  bool leaves = true;    ///< the same
};

namespace detail {
/// An average of permutation matrices, which is doubly stochastic: the identity, for every peer's
/// own update; a cycle through all, so that it is strongly connected; and some at random.
[[nodiscard]] mixing_matrix random_directed(random_stream& random, std::uint32_t n);
/// The fewest in-neighbors that a node has.
[[nodiscard]] std::size_t fewest_in(graph const& g);
}  // namespace detail

/// A schedule in the manner of a swarm, as `random_schedule`: each one leaves out some kinds of
/// trouble altogether and exaggerates others. The same for the same seed, everywhere.
[[nodiscard]] peer_schedule random_peers(std::uint64_t seed, peer_schedule_limits const& limits = {});

}  // namespace rubato::testing
