// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// ConSGD: SSP whose updates count λ_g times, 1/M unless set, so that many workers' sums do not
/// overshoot and local rates can stay large. Source: 000 §4.
template <visibility_policy Visibility = eager, merge_policy Merge = scale,
          pace_policy Pace = every_step>
struct basic_con_sgd {
  rubato::staleness staleness = 3;  ///< s, in clocks
  [[no_unique_address]] Visibility window{};  ///< which commits are seen
  [[no_unique_address]] Merge fold{};  ///< what an update counts, on tables without a merge of their own
  [[no_unique_address]] Pace tempo{};  ///< when a worker commits

  [[nodiscard]] constexpr bounded_staleness admission() const noexcept { return {staleness}; }
  [[nodiscard]] constexpr Visibility visibility() const { return window; }
  [[nodiscard]] constexpr Merge merge() const { return fold; }
  [[nodiscard]] constexpr Pace pace() const { return tempo; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "con_sgd"; }
};

/// With the policies that the paper has.
using con_sgd = basic_con_sgd<>;
static_assert(protocol<con_sgd>);

}  // namespace rubato
