// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace rubato {

/// What becomes of a commit that was computed at a round which is over when it arrives.
enum class late_commit : std::uint8_t {
  drop,  ///< it is counted, and left out
  fold,  ///< it is one of the round under way
};

/// Visibility by rounds: commits are held back until so many are there, whoever has sent them, and folded in one step, in
/// the order (worker, stamp). The number of rounds folded is the version of the parameters.
///
/// | expression         | result          | meaning |
/// |--------------------|-----------------|---------|
/// | `P::holds_back`    | `bool`          | constant, true |
/// | `P::late`          | `late_commit`   | constant |
/// | `p.round_size()`   | `std::uint32_t` | K, at least 1: as many commits make a round |
///
/// With `late_commit::drop` a round takes the first K commits that were computed at it, with `fold` the first K to
/// arrive. A round is over with fewer where nobody is left to wait for: under a `round_admission` when all live workers
/// that take part in it have committed for it, and for everybody once the last worker has left. Each server counts for
/// itself; a commit is computed at the newest round that any server had told its worker of, so that none waits for
/// another for ever. Own commits that are held back are not shown to their worker.
/// Models: `quorum`, `buffered`. Source: Chen et al. 2016, Algorithms 3 and 4; Nguyen et al., AISTATS 2022, Algorithm 1.
template <class P>
concept round_visibility = std::copyable<P> && requires(P const p) {
  requires std::bool_constant<P::holds_back>::value;
  { P::late } -> std::convertible_to<late_commit>;
  { p.round_size() } noexcept -> std::same_as<std::uint32_t>;
};

}  // namespace rubato
