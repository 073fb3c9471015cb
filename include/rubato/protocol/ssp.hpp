// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// Stale synchronous parallel: the fastest worker reads at most s clocks ahead of the slowest, and
/// reads from its own cached copy while that is fresh enough.
///
/// Guarantee: a read at clock c reflects every update with stamp ≤ c − s − 1 and all of the
/// reader's own (SSP-1, SSP-2). With `strict` visibility it also reflects nothing newer than 001
/// Eq. 2 allows (SSP-4); with s = 0, `strict` and `average` it is BSP bit for bit. Source: 001.
template <visibility_policy Visibility = eager, merge_policy Merge = sum,
          pace_policy Pace = every_step>
struct basic_ssp {
  rubato::staleness staleness = 3;  ///< s, in clocks
  [[no_unique_address]] Visibility window{};  ///< which commits are seen
  [[no_unique_address]] Merge fold{};  ///< what an update counts, on tables without a merge of their own
  [[no_unique_address]] Pace tempo{};  ///< when a worker commits

  [[nodiscard]] constexpr bounded_staleness admission() const noexcept { return {staleness}; }
  [[nodiscard]] constexpr Visibility visibility() const { return window; }
  [[nodiscard]] constexpr Merge merge() const { return fold; }
  [[nodiscard]] constexpr Pace pace() const { return tempo; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "ssp"; }
};

/// With the policies that the paper has.
using ssp = basic_ssp<>;
static_assert(protocol<ssp>);

}  // namespace rubato
