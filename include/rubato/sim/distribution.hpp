// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <rubato/core/portable_math.hpp>
#include <rubato/core/random.hpp>

#include <algorithm>
#include <string_view>
#include <variant>

namespace rubato::sim {

/// Always `value`. Draws nothing from the stream.
struct constant {
  double value = 1.0;  ///< what is always drawn; 0 or more

  [[nodiscard]] double draw(random_stream&) const noexcept { return value; }
  friend bool operator==(constant const&, constant const&) = default;
};

/// Uniform on [low, high).
struct uniform {
  double low = 0.0;  ///< the least that is drawn; 0 or more
  double high = 1.0;  ///< never reached, unless it is `low`; not below that

  [[nodiscard]] double draw(random_stream& random) const noexcept {
    return low + (high - low) * random.uniform();
  }
  friend bool operator==(uniform const&, uniform const&) = default;
};

/// Exponential: the gaps between events that have no memory.
struct exponential {
  double mean = 1.0;  ///< of what is drawn; above 0

  [[nodiscard]] double draw(random_stream& random) const noexcept {
    return mean * random.exponential();
  }
  friend bool operator==(exponential const&, exponential const&) = default;
};

/// Lognormal: `median` times e^(sigma z), z normal. The common shape of compute and network times.
struct lognormal {
  double median = 1.0;  ///< of what is drawn; above 0
  double sigma = 0.0;  ///< standard deviation of the logarithm; 0 or more

  [[nodiscard]] double draw(random_stream& random) const noexcept {
    return median * detail::portable_exp(sigma * random.normal());
  }
  friend bool operator==(lognormal const&, lognormal const&) = default;
};

/// Pareto: P(x > v) = (least / v)^alpha, and what exceeds `cap` becomes `cap`. A heavy tail, for
/// rare and very long delays; the smaller `alpha`, the heavier.
struct pareto {
  double least = 1.0;  ///< the least that is drawn; above 0
  double alpha = 2.0;  ///< how fast the tail falls; above 0
  double cap = 100.0;  ///< the greatest that is drawn; not below `least`

  [[nodiscard]] double draw(random_stream& random) const noexcept {
    return std::min(cap, least * detail::portable_exp(random.exponential() / alpha));
  }
  friend bool operator==(pareto const&, pareto const&) = default;
};

/// One of the distributions above: a factor that the simulator multiplies a time with.
///
/// A small regular value, made by naming a member: `distribution d = lognormal{.sigma = 0.3}`.
/// Draws are the same on all compilers. Distinct objects are independent; drawing from a shared one
/// is safe, as long as the streams are distinct.
class distribution {
 public:
  /// The constant 1: no jitter.
  constexpr distribution() noexcept = default;
  /// Always the same.
  constexpr distribution(constant d) noexcept : kind_(d) {}
  /// Each of these converts.
  constexpr distribution(uniform d) noexcept : kind_(d) {}
  /// Each of these converts.
  constexpr distribution(exponential d) noexcept : kind_(d) {}
  /// Each of these converts.
  constexpr distribution(lognormal d) noexcept : kind_(d) {}
  /// Each of these converts.
  constexpr distribution(pareto d) noexcept : kind_(d) {}

  /// One number: never negative, provided that `validate` is content. Constant time.
  [[nodiscard]] double draw(random_stream& random) const noexcept {
    return std::visit([&](auto const& d) { return d.draw(random); }, kind_);
  }

  /// Whether it draws nothing from the stream.
  [[nodiscard]] bool is_constant() const noexcept {
    return std::holds_alternative<constant>(kind_);
  }

  /// @throws option_error with a sentence that starts with `option` unless every parameter is
  /// finite and in range: values >= 0, means, medians, `least` and `alpha` > 0, low <= high, least
  /// <= cap.
  void validate(std::string_view option) const;

  friend bool operator==(distribution const&, distribution const&) = default;

 private:
  std::variant<constant, uniform, exponential, lognormal, pareto> kind_;
};

}  // namespace rubato::sim
