// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/peer/concepts.hpp"

namespace rubato {

/// Every peer makes every iteration.
struct no_jump {
  static constexpr bool jumps = false;
};
static_assert(jump_policy<no_jump>);

/// A peer that is `trigger` or more iterations behind the slowest of those that it sends to goes
/// forward by what it lags, at most `iterations_max`, at once. Both are 2 or more: by 1 every peer
/// goes anyway.
///
/// How far a peer can lag is bounded: along an edge that leads both ways by what `token_queues` allow,
/// under `gather_newest` by its staleness + 1 too; along one that leads one way by more, the longer the
/// way back (002 Table 1). Nobody ever jumps where `trigger` is above that. Source: 002 §5.
struct bounded_jump {
  std::int64_t trigger = 2;  ///< how far behind its slowest out-neighbor a peer must be to jump
  std::int64_t iterations_max = 10;  ///< the most that it goes forward at once

  static constexpr bool jumps = true;
  [[nodiscard]] constexpr std::int64_t jump(std::int64_t lag) const noexcept {
    return lag < trigger ? 1 : std::min(lag, iterations_max);
  }
  /// @throws option_error for less than 2
  void check() const {
    if (trigger < 2 || iterations_max < 2)
      throw option_error("bounded_jump: trigger and iterations_max must be 2 or more, but are " +
                         std::to_string(trigger) + " and " + std::to_string(iterations_max));
  }
};
static_assert(jump_policy<bounded_jump>);

}  // namespace rubato
