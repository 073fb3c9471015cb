// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "rubato/core/error.hpp"

namespace rubato {

/// By how much coordinate w misses its condition of Karush, Kuhn and Tucker in min f + λ |·|₁, where `gradient` is
/// that of f: −λ sign(w), or anything within [−λ, λ] where w is 0.
[[nodiscard]] inline double kkt_violation(double w, double gradient, double lambda) noexcept {
  return w == 0 ? std::max(std::abs(gradient) - lambda, 0.0) : std::abs(gradient + std::copysign(lambda, w));
}

/// Leaves out coordinates of an l1-regularized problem that would stay at 0: `.filter = {.passes = 10}`. Where
/// `update_filter` looks at what was computed, this one keeps it from being computed, and the parameters for it
/// from being read.
///
/// Soft-thresholding puts w to 0 where the gradient g of the smooth part is within [−λ, λ], which is the condition
/// of Karush, Kuhn and Tucker for w = 0. A worker knows g as of its last read only, so a coordinate is left out
/// where w = 0 and |g| < λ − δ with a margin δ, and is looked at again some passes later, so that none is lost.
/// Which those are, `algorithm::kkt_active_set` keeps.
///
/// Source: 000 App. D and its [28], Li et al., "Scaling distributed machine learning with the parameter server", OSDI
/// 2014, for the filter with a δ that the user gives; Yuan et al., "A comparison of optimization methods and
/// software for large-scale L1-regularized linear classification", JMLR 11, 2010, for one that
/// shrinks with the greatest violation of the pass before. δ here is the sum of both: other workers move g, too.
struct kkt_filter {
  /// Passes over the coordinates for which one is left out each time, at least 0; 0 leaves out none.
  std::int64_t passes = 0;
  /// The least δ, as a share of λ, in [0, 1].
  double margin = 0.1;

  /// Whether nothing is ever left out.
  [[nodiscard]] constexpr bool off() const noexcept { return passes == 0; }
  /// Whether a coordinate may be left out; never one whose gradient is not a number. @pre not `off()`
  /// @param gradient of the smooth part, as far as is known
  /// @param violation the greatest one in the pass before, infinite before the first one has ended
  [[nodiscard]] bool leaves_out(double w, double gradient, double lambda, double violation) const noexcept {
    return w == 0 && std::abs(gradient) < lambda - (margin * lambda + violation);
  }

  /// @throws option_error naming the option and what was expected
  void check() const {
    if (passes < 0)
      throw option_error("kkt_filter: passes must be at least 0, but is " + std::to_string(passes));
    if (!(margin >= 0 && margin <= 1))
      throw option_error("kkt_filter: margin must be in [0, 1], a share of lambda, but is " + std::to_string(margin));
  }
};

}  // namespace rubato
