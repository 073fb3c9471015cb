// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>

#include "rubato/peer/exchange.hpp"
#include "rubato/peer/push_rules.hpp"

namespace rubato {

/// Stochastic gradient push (SGP): in each iteration a peer applies its gradient, keeps half of its parameters and of
/// their weight, pushes the other half to one peer, another one each time, and adds up what was pushed to it. Gradients
/// are computed at parameters divided by their weight. One update is sent and waited for in an iteration, however many
/// peers there are; edges are directed, so that nobody waits for an answer, and a slow peer holds up those only that
/// it reaches.
///
/// With `delay` τ it sends in every τ-th iteration, by the next graph each time, and what is sent counts τ iterations
/// later, and travels while gradients are computed (τ-OSGP; the paper's counts what comes before its time; here what
/// a run comes to does not depend on how fast messages are). While updates are under way a peer has a half to two
/// thirds of its weight, and its parameters move by up to twice the step.
///
/// The others go on without a peer that is lost, see `push_rules`. Combined with `every_neighbor` it trains on any
/// strongly connected directed graph, see `mixing_matrix::push`.
///
/// Source: Assran, Loizou, Ballas, Rabbat, "Stochastic Gradient Push for Distributed Deep Learning", ICML 2019
/// (SGP), and its overlap (OSGP); its graph is `one_peer_exponential`.
struct push_sum {
  exchange_rules over = one_peer_exponential{};  ///< the graphs, by iteration
  std::int64_t delay = 0;                        ///< τ, iterations

  /// @throws option_error for options that cannot be meant
  [[nodiscard]] std::unique_ptr<peer_node> make_node(node_setup const& setup) const {
    return make_push_node({.name = "push_sum", .who = over, .delay = delay}, setup);
  }
};
static_assert(peer_protocol<push_sum>);

}  // namespace rubato
