// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/element_merge.hpp"

namespace rubato {

/// The mean d of a step's updates, by the step's own measure of how far each element uses to move:
/// `m ← β₁m + (1−β₁)d`, v after d² as the merge has it, `w ← w + η·m/(√v + τ)`, without correction for the
/// beginning, for v begins with τ². Lazy: where updates list their rows, m and v of other rows stay, too.
/// Source: Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan, "Adaptive Federated Optimization", ICLR 2021
/// (FedOpt).
template <class After>
struct adaptive {
  double rate = 0.1;    ///< η
  double beta1 = 0.9;   ///< β₁: what is left of m in each step
  double beta2 = 0.99;  ///< β₂: what is left of v
  double tau = 1e-3;    ///< τ, above 10⁻³⁰, as floats have it: how adaptive it is; less is more

  void check() const {
    std::string const name(After::name);
    detail::expect_finite(name + ": rate", rate);
    detail::expect_share(name + ": beta1", beta1);
    detail::expect_share(name + ": beta2", beta2);
    detail::expect_option(tau > 1e-30 && std::isfinite(tau), name + ": tau", tau, "above 1e-30, finite");
  }
  static constexpr std::size_t slots = 2;
  static constexpr bool lazy = true;

  [[nodiscard]] constexpr double weight(commit_info const& c) const noexcept {
    return 1.0 / static_cast<double>(c.workers);
  }
  [[nodiscard]] constexpr double initial(std::size_t slot) const noexcept { return slot == 0 ? 0 : tau * tau; }
  template <std::floating_point T>
  [[nodiscard]] T step(fold_step, T, T d, T& m, T& v) const noexcept {
    m = static_cast<T>(beta1) * m + static_cast<T>(1 - beta1) * d;
    v = After::next(v, d * d, static_cast<T>(1 - beta2));
    return static_cast<T>(rate) * m / (std::sqrt(v) + static_cast<T>(tau));
  }
};

namespace detail {
struct after_adagrad {
  static constexpr std::string_view name = "adagrad";
  template <class T>
  static T next(T v, T square, T) noexcept { return v + square; }
};
struct after_adam {
  static constexpr std::string_view name = "adam";
  template <class T>
  static T next(T v, T square, T share) noexcept { return (1 - share) * v + share * square; }
};
struct after_yogi {
  static constexpr std::string_view name = "yogi";
  template <class T>
  static T next(T v, T square, T share) noexcept {
    return v > square ? v - share * square : v < square ? v + share * square : v;
  }
};
}  // namespace detail

using adagrad = adaptive<detail::after_adagrad>;  ///< `v ← v + d²`: rates only fall
using adam = adaptive<detail::after_adam>;        ///< `v ← β₂v + (1−β₂)d²`
using yogi = adaptive<detail::after_yogi>;        ///< `v ← v − (1−β₂)d²·sign(v − d²)`: rates rise slowly
static_assert(element_merge<adagrad> && element_merge<adam> && element_merge<yogi>);

}  // namespace rubato
