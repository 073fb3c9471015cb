// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/revise.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// DynSGD: SSP whose updates are worth one over the number of updates that were computed from the
/// same version of the parameters. Needs `multi_version` tables. Source: 000 §5.
///
/// Servers are not synchronized with each other: a pull may see a commit on one server that is
/// still on its way to another. `with(dyn_sgd{}, stable_cut{})` reads the same commits from all
/// (000 §6).
template <visibility_policy Visibility = eager, merge_policy Merge = revise,
          pace_policy Pace = every_step>
struct basic_dyn_sgd {
  rubato::staleness staleness = 3;  ///< s, in clocks
  [[no_unique_address]] Visibility window{};  ///< which commits are seen
  [[no_unique_address]] Merge fold{};  ///< what an update counts, on tables without a merge of their own
  [[no_unique_address]] Pace tempo{};  ///< when a worker commits

  [[nodiscard]] constexpr bounded_staleness admission() const noexcept { return {staleness}; }
  [[nodiscard]] constexpr Visibility visibility() const { return window; }
  [[nodiscard]] constexpr Merge merge() const { return fold; }
  [[nodiscard]] constexpr Pace pace() const { return tempo; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "dyn_sgd"; }
};

/// With the policies that the paper has.
using dyn_sgd = basic_dyn_sgd<>;
static_assert(protocol<dyn_sgd>);

}  // namespace rubato
