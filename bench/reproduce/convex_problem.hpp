// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rubato/model/loss.hpp"

namespace rubato::bench {

/// sqrt(delta² + r²) − delta: the absolute value without its kink, at most delta below it. Convex, and its slope
/// stays within [−1, 1].
struct smoothed_absolute_loss {
  static constexpr bool takes_residual = true;
  double delta = 1e-3;

  [[nodiscard]] double value(double residual) const noexcept { return std::hypot(delta, residual) - delta; }
  [[nodiscard]] double slope(double residual) const noexcept { return residual / std::hypot(delta, residual); }
};
static_assert(model::residual_loss<smoothed_absolute_loss>);

/// Where a convex function is least, and how well that is known.
struct minimum {
  std::vector<double> at;
  double value = 0;
  double gradient = 0;  ///< length of the gradient there: the value is at most this times the distance too high
};

/// Robust linear regression, the mean of components `f_i(x) = loss(<a_i, x> − b_i)`. Rows a_i have length 1, so that
/// each component is convex and Lipschitz with L = 1, as regret bounds for online convex programming want it.
///
/// Labels are those of parameters of length 1, with normal noise. With one feature and no noise all components are
/// the same function, so that all gradients agree: what regret bounds fear. Immutable.
class convex_problem {
 public:
  struct shape {
    std::size_t rows = 1000;
    std::size_t features = 10;
    double noise = 0.1;  ///< standard deviation, of the labels
  };
  /// @throws option_error without rows or features, or with negative noise
  convex_problem(shape const& s, std::uint64_t seed);

  [[nodiscard]] std::size_t size() const noexcept { return labels_.size(); }
  [[nodiscard]] std::size_t features() const noexcept { return features_; }
  static constexpr double lipschitz = 1;

  [[nodiscard]] std::span<double const> row(std::size_t i) const noexcept {
    return {rows_.data() + i * features_, features_};
  }
  /// f_i(x). O(features).
  [[nodiscard]] double value(std::size_t i, std::span<double const> x) const noexcept;
  /// What row(i) is to be multiplied by to be the gradient of f_i at x. O(features).
  [[nodiscard]] double slope(std::size_t i, std::span<double const> x) const noexcept;

  /// Where the mean of the first `count` components is least: computed by one thread, by iteratively reweighted least
  /// squares, which descends in each step. O(count × features²) a step.
  /// @throws option_error unless there are so many, and at least 1; data_error where no minimum is found
  [[nodiscard]] minimum minimize(std::size_t count) const;

 private:
  [[nodiscard]] double residual(std::size_t i, std::span<double const> x) const noexcept;

  std::size_t features_;
  smoothed_absolute_loss loss_{};
  std::vector<double> rows_;
  std::vector<double> labels_;
};

}  // namespace rubato::bench
