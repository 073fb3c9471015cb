// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// Every local step commits. Source: 001 §2 (`clock()` after each iteration).
struct every_step {
  [[nodiscard]] constexpr commit_due due(pace_point const&) const noexcept { return {}; }
};
static_assert(pace_policy<every_step>);

/// Every `steps`-th local step commits: with a barrier this is Fixed ADACOMM's τ (003 §2.2); with
/// the batches of one pass over the worker's data, it is the clock of 000 Alg. 1.
struct every {
  std::int64_t steps = 1;  ///< local steps per commit; at least 1

  [[nodiscard]] constexpr commit_due due(pace_point const&) const noexcept {
    return {.steps = steps};
  }
};
static_assert(pace_policy<every>);

}  // namespace rubato
