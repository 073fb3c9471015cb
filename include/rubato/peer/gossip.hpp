// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>

#include "rubato/peer/exchange.hpp"
#include "rubato/peer/push_rules.hpp"

namespace rubato {

/// Gossip SGD: after its step a peer sends its parameters with half of their weight to a random out-neighbor, or to
/// nobody, and goes on; what comes to it is averaged by weight as soon as it is there, into parameters of whatever
/// iteration. Nobody ever waits, for an answer neither, which sets it apart from `ad_psgd`, and is why it needs
/// weights and takes any strongly connected graph, a directed one with `mixing_matrix::push`. The paper draws among all
/// peers: on `complete`.
///
/// What is under way is weight that its sender does not have: where messages take as long as many steps, a peer that
/// sends after each one has given nearly all of its weight away when something comes, and its own steps since then
/// hardly count. So it usually sends after every fourth only.
///
/// Who has hardly any weight left (2^-40) sends nothing until something comes. A peer that is lost takes its weight
/// with it, and the others go on.
///
/// Source: Blot, Picard, Cord, Thome, "Gossip training for deep learning" (GoSGD), arXiv:1611.09726, 2016; weights
/// as in Kempe, Dobra, Gehrke, "Gossip-Based Computation of Aggregate Information", FOCS 2003 (push-sum).
struct gossip {
  double probability = 0.25;  ///< that a peer sends in an iteration: above 0, at most 1
  std::uint64_t seed = 1;     ///< of the choice of neighbors; the same at all peers

  /// @throws option_error for options that cannot be meant
  [[nodiscard]] std::unique_ptr<peer_node> make_node(node_setup const& setup) const {
    return make_push_node({.name = "gossip",
                           .who = random_partner{.seed = seed, .probability = probability},
                           .pace = exchange_pace::free,
                           .step_by_weight = false},
                          setup);
  }
};
static_assert(peer_protocol<gossip>);

}  // namespace rubato
