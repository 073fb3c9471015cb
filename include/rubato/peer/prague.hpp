// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>

#include "rubato/peer/exchange.hpp"
#include "rubato/peer/push_rules.hpp"

namespace rubato {

/// Partial all-reduce: in each iteration a peer applies its gradient, and averages its parameters with those of a
/// small group, all members of which hold the same then, to the last bit. Groups are cut anew in each iteration, from a
/// seed that all know, whatever the graph: nobody is in two groups of an iteration, so that none has to wait for
/// another one's lock, and peers cannot deadlock, since none waits for a later iteration.
///
/// Built is the paper's static scheduling, where each computes its own groups, with groups as random as those of its
/// Group Division; not its central Group Generator, which gives slow peers fewer groups: so a slow peer holds up the
/// few that it meets, and in time those that these meet. Members of a group send to each other, in one round; a ring,
/// as in the paper, would take 2(size − 1) of them, for messages that are less by a half for a group of four.
///
/// A peer cannot do without one of its group: its loss ends the run, with its name.
///
/// Source: Luo, He, Zhuo, Qian, "Prague: High-Performance Heterogeneity-Aware Asynchronous Decentralized Training",
/// ASPLOS 2020 (P-Reduce; static group scheduling).
struct prague {
  std::uint32_t group = 3;  ///< the most members of a group; 2 or more
  std::uint64_t seed = 1;   ///< of the groups; the same at all peers

  /// @throws option_error for options that cannot be meant
  [[nodiscard]] std::unique_ptr<peer_node> make_node(node_setup const& setup) const {
    return make_push_node(
        {.name = "prague", .who = random_groups{.size = group, .seed = seed}, .outlives_loss = false}, setup);
  }
};
static_assert(peer_protocol<prague>);

}  // namespace rubato
