// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "rubato/core/element.hpp"
#include "rubato/peer/hop_rules.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/peer_node.hpp"

/// What the peers of a run in several processes compare before it begins: in words that can be shown when they do not
/// agree, in parts between "; ". Policies are known by what they answer to a fixed set of questions, the answers to
/// which are hashed: so that two differ that differ in a number, however they are put together.
namespace rubato {

/// All but the protocol: the graph, its weights, the parameters with what they begin with, and what the local step
/// makes of the first few parameters, to four digits. @param step a copy, that is of no other use any more
[[nodiscard]] std::string agreement_of_peers(mixing_matrix const& mixing, element_type element,
                                             std::span<std::byte const> initial, peer_step& step);
/// A protocol of the Hop family, among so many peers.
[[nodiscard]] std::string agreement_of(hop_rules const& protocol, std::uint32_t peers);

}  // namespace rubato
