// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <memory>

#include "rubato/peer/peer_node.hpp"

namespace rubato {

/// All peers average their gradients in every iteration, on a ring of ranks whatever the graph, and
/// stay alike to the last bit; but for a run that was stopped, after which some may be an iteration
/// ahead, and stay so. One slow peer or link holds up all. A baseline for Hop. Source: 002 §2.1.
/// Cost of an iteration: each peer sends 2(n − 1)/n of the gradient, half a megabyte at a time, and adds pieces up
/// while others are on their way.
struct all_reduce {
  [[nodiscard]] std::unique_ptr<peer_node> make_node(node_setup const& setup) const;
};
static_assert(peer_protocol<all_reduce>);

}  // namespace rubato
