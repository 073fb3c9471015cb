// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rubato/peer/exchange.hpp"
#include "rubato/peer/peer_node.hpp"

namespace rubato {

/// A protocol in which weights travel with updates: what makes one differ from another. `push_sum`, `gossip` and
/// `prague` are made of it, and so is a protocol of your own:
///
///     struct to_two_others {
///       std::unique_ptr<peer_node> make_node(node_setup const& setup) const {
///         return make_push_node({.name = "to_two_others", .who = my_schedule{}}, setup);
///       }
///     };
///
/// Each peer has parameters z, at which gradients are computed, and a weight w, 1 at first; push-sum's biased
/// parameters are x = w·z. Sending, it gives away part of w; what it gets is averaged by weight. So the sums of w and
/// of w·z over all peers, with what is under way, are what they were, whoever sends to whom and whenever it arrives.
///
/// So a peer may send without giving any of w away, and does so while it has less than 1/4 (where steps are not
/// divided by w, 2^-40; where nobody waits for it, it sends nothing then): its steps would grow without bound if
/// nothing came back. When a peer is lost, w becomes 1 at all who have less and divide their steps by it: that makes
/// up for what went with the lost one.
struct push_rules {
  std::string name;                             ///< in messages
  exchange_rules who = one_peer_exponential{};  ///< sends to whom, in which iteration
  exchange_pace pace = exchange_pace::in_step;  ///< whether a peer waits for what is sent to it
  /// In step: what is sent in iteration k is waited for, and counts, at the end of iteration k + delay: 0 or more. With
  /// two or more, peers send in every delay-th iteration only, by the schedule of iteration k / delay.
  std::int64_t delay = 0;
  /// Whether the step is added to x, so that z changes by step / w, or else to z.
  bool step_by_weight = true;
  /// Whether the others go on, with what weight they have, when a peer is lost; else who waits for it has an error.
  bool outlives_loss = true;
};

/// @throws option_error for options that cannot be meant
[[nodiscard]] std::unique_ptr<peer_node> make_push_node(push_rules rules, node_setup const& setup);

}  // namespace rubato
