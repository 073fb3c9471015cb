// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/mixing.hpp>
#include <vector>

#include "simulated/peers_in_one_place.hpp"

/// Groups of peers for tests of what carries them.
namespace rubato::test {

using floats = std::vector<float>;
using states = peer_states<float>;

inline constexpr auto standard = [](iteration_order order = iteration_order::parallel) {
  return hop(order);
};
inline constexpr auto with_backup = [](std::int64_t gap_max = 4) {
  return hop(gather_all_but{1}, token_queues{gap_max}, bounded_jump{});
};

template <class Transport, class Protocol>
auto make_group(Transport const& t, mixing_matrix const& on, Protocol const& p,
                floats const& initial = {1, -2, 0.5F, 4}, sgd const& step = {}) {
  return peer_group{t, on, p, step, initial};
}
template <class Transport, class Protocol>
auto make_group(Transport const& t, graph const& on, Protocol const& p) {
  return make_group(t, mixing_matrix::automatic(on), p);
}

/// The usual training body, of so many iterations.
inline auto training(std::int64_t iterations) {
  return [iterations](auto& peer) {
    for (std::int64_t const k : peer.iterations(iterations))
      peer.step(gradient_at(peer.parameters(), peer.rank(), k));
  };
}

template <class Group>
states parameters_of(Group const& group) {
  states all;
  for (std::uint32_t i = 0; i < group.size(); ++i) all.push_back(group.parameters(i));
  return all;
}
inline bool same_bits(states const& a, states const& b) {
  return std::ranges::equal(
      a, b, [](floats const& x, floats const& y) { return same_bits<float>(x, y); });
}

}  // namespace rubato::test
