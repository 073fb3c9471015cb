// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <concepts>

#include <rubato/core/clock.hpp>

namespace rubato::model {

/// How large a local step is at a clock: `rate(c)` is the learning rate of a worker that has
/// committed c times. Pure, positive for sensible parameters, callable from any thread.
template <class R>
concept learning_rate = std::copyable<R> && requires(R const rate, clock_index clock) {
  { rate(clock) } noexcept -> std::same_as<double>;
};

/// The same rate for ever.
struct fixed_rate {
  double sigma = 0.1;  ///< the rate

  [[nodiscard]] double operator()(clock_index /*clock*/) const noexcept { return sigma; }
};
static_assert(learning_rate<fixed_rate>);

/// sigma / sqrt(alpha * clock + 1), the decay that "Heterogeneity-aware Distributed Parameter
/// Servers" (SIGMOD 2017, section 7.1) uses with alpha = 0.2.
struct decayed_rate {
  double sigma = 0.1;  ///< the rate at clock 0
  double alpha = 0.2;  ///< how fast it falls

  [[nodiscard]] double operator()(clock_index clock) const noexcept {
    return sigma / std::sqrt(alpha * static_cast<double>(clock.value()) + 1);
  }
};
static_assert(learning_rate<decayed_rate>);

}  // namespace rubato::model
