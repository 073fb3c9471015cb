// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// Asynchronous parallel: nobody waits, every clock reads afresh, staleness is unbounded.
/// Guarantee: read-my-writes only (SSP-2). Source: 000 §2, 001 §5.
template <visibility_policy Visibility = eager, merge_policy Merge = sum,
          pace_policy Pace = every_step>
struct basic_asp {
  [[no_unique_address]] Visibility window{};  ///< which commits are seen
  [[no_unique_address]] Merge fold{};  ///< what an update counts, on tables without a merge of their own
  [[no_unique_address]] Pace tempo{};  ///< when a worker commits

  [[nodiscard]] constexpr unbounded admission() const noexcept { return {}; }
  [[nodiscard]] constexpr Visibility visibility() const { return window; }
  [[nodiscard]] constexpr Merge merge() const { return fold; }
  [[nodiscard]] constexpr Pace pace() const { return tempo; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "asp"; }
};

/// With the policies that the paper has.
using asp = basic_asp<>;
static_assert(protocol<asp>);

}  // namespace rubato
