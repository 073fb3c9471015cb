// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>

namespace rubato::model {

/// A convex loss of the margin m = y <w, x>, where y is -1 or +1: what an example costs when the
/// linear score agrees with its label by m.
///
/// | expression      | result | meaning                                                        |
/// |-----------------|--------|----------------------------------------------------------------|
/// | `loss.value(m)` | double | the cost; not negative and finite for every finite m           |
/// | `loss.slope(m)` | double | a subgradient of `value` at m; never positive                  |
///
/// Both are pure and may be called from any thread. A `residual_loss` is no linear_loss.
template <class L>
concept linear_loss = std::copyable<L> && requires(L const loss, double margin) {
  { loss.value(margin) } noexcept -> std::same_as<double>;
  { loss.slope(margin) } noexcept -> std::same_as<double>;
} && !requires { requires L::takes_residual; };

/// log(1 + exp(-m)): logistic regression.
struct logistic_loss {
  /// Never overflows, and keeps its relative precision where the cost is tiny.
  [[nodiscard]] double value(double margin) const noexcept {
    return std::max(-margin, 0.0) + std::log1p(std::exp(-std::abs(margin)));
  }
  /// -1 / (1 + exp(m)), with an exponent that is never positive.
  [[nodiscard]] double slope(double margin) const noexcept {
    double const e = std::exp(-std::abs(margin));
    return margin >= 0 ? -e / (1 + e) : -1 / (1 + e);
  }
};
static_assert(linear_loss<logistic_loss>);

/// max(0, 1 - m): the linear support vector machine. At the kink m = 1 the slope is 0.
struct hinge_loss {
  [[nodiscard]] double value(double margin) const noexcept { return std::max(1 - margin, 0.0); }
  [[nodiscard]] double slope(double margin) const noexcept { return margin < 1 ? -1.0 : 0.0; }
};
static_assert(linear_loss<hinge_loss>);

/// A convex loss of the residual r = <w, x> - y, where y is any number: what an example costs when
/// the linear score is off by r. For regression.
///
/// | expression          | result | meaning                                                    |
/// |---------------------|--------|------------------------------------------------------------|
/// | `loss.value(r)`     | double | the cost; not negative and finite for every finite r       |
/// | `loss.slope(r)`     | double | a subgradient of `value` at r                              |
/// | `L::takes_residual` | true   | tells it from a loss of the margin, which looks the same   |
///
/// All are pure and may be called from any thread.
template <class L>
concept residual_loss = std::copyable<L> && requires(L const loss, double residual) {
  { loss.value(residual) } noexcept -> std::same_as<double>;
  { loss.slope(residual) } noexcept -> std::same_as<double>;
  requires L::takes_residual;
};

/// A loss of either kind.
template <class L>
concept row_loss = linear_loss<L> || residual_loss<L>;

/// max(0, |r| - epsilon): the support vector machine for regression. Errors of up to epsilon, which
/// is not negative and in the unit of the labels, are free. At the kinks the slope is 0.
/// Source: V. Vapnik, "The Nature of Statistical Learning Theory", 1995.
struct epsilon_insensitive_loss {
  static constexpr bool takes_residual = true;
  double epsilon = 0.1;  ///< errors up to it are free

  [[nodiscard]] double value(double residual) const noexcept {
    return std::max(std::abs(residual) - epsilon, 0.0);
  }
  [[nodiscard]] double slope(double residual) const noexcept {
    return residual > epsilon ? 1.0 : residual < -epsilon ? -1.0 : 0.0;
  }
};
static_assert(residual_loss<epsilon_insensitive_loss>);

}  // namespace rubato::model
