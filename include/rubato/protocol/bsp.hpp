// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// Bulk synchronous parallel: all workers end a clock before any begins the next.
///
/// Guarantee: workers that read at the same clock see bit-identical parameters, equal to a
/// sequential run that folds each clock's updates in worker order. Source: 001 §2, 000 §2.
template <visibility_policy Visibility = strict, merge_policy Merge = average,
          pace_policy Pace = every_step>
struct basic_bsp {
  [[no_unique_address]] Visibility window{};  ///< which commits are seen
  [[no_unique_address]] Merge fold{};  ///< what an update counts, on tables without a merge of their own
  [[no_unique_address]] Pace tempo{};  ///< when a worker commits

  [[nodiscard]] constexpr barrier admission() const noexcept { return {}; }
  [[nodiscard]] constexpr Visibility visibility() const { return window; }
  [[nodiscard]] constexpr Merge merge() const { return fold; }
  [[nodiscard]] constexpr Pace pace() const { return tempo; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "bsp"; }
};

/// With the policies that the paper has.
using bsp = basic_bsp<>;
static_assert(protocol<bsp>);

}  // namespace rubato
