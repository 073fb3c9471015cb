// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>

#include "rubato/protocol/concepts.hpp"

namespace rubato {

namespace detail {
template <class P>
consteval bool declared_by_round() {
  if constexpr (requires { { P::by_round } -> std::convertible_to<bool>; }) return P::by_round;
  return false;
}
}  // namespace detail

/// Admission by rounds: `static constexpr bool by_round = true`. Needs a `round_visibility`. A worker that has committed
/// what it computed at round r reads again when that round has been folded, and commits once a round. Clocks are not
/// looked at: `need` and `cache_need` say that a read fetches, and waits for no clock.
/// Models: `each_round`, `sampled`. Source: Dutta et al., AISTATS 2018, §3.
template <class P>
concept round_admission = admission_policy<P> && detail::declared_by_round<P>();

/// Admission by rounds that some workers sit out.
///
/// | expression                | result | meaning |
/// |---------------------------|--------|---------|
/// | `p.takes_part(w, round)`  | `bool` | whether the worker computes in this round; if not, its reads wait for one in which it does |
///
/// Depends on nothing but the arguments, so that servers agree; each worker takes part again and again. One that was
/// drawn for a round which was over before it read takes part in the one under way in its place. Called concurrently.
/// Models: `sampled`. Source: McMahan et al., AISTATS 2017, Algorithm 1.
template <class P>
concept sampling_admission = round_admission<P> && requires(P const p, worker_id w, version_index round) {
  { p.takes_part(w, round) } noexcept -> std::same_as<bool>;
};

}  // namespace rubato
