// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>

#include "rubato/protocol/element_merge.hpp"

namespace rubato {

/// For workers that send by how much their updates have changed, as `lazy_upload` does: `v ← v + Σ differences`,
/// `w ← w + v/M`. So v is the sum of what workers have sent last, whoever comes and goes, and a step is their mean,
/// with M as `average` has it.
struct mean_of_latest {
  static constexpr std::size_t slots = 1;
  static constexpr bool keeps_sum = true;  ///< so that differences add up

  [[nodiscard]] constexpr double weight(commit_info const&) const noexcept { return 1.0; }
  template <std::floating_point T>
  [[nodiscard]] constexpr T step(fold_step at, T, T d, T& v) const noexcept {
    v += d;
    return v / static_cast<T>(at.workers);
  }
};
static_assert(element_merge<mean_of_latest>);

}  // namespace rubato
