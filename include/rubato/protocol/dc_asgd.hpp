// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <string_view>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/element_merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// Updates `u = −ηg` are corrected for what the parameters w have become since their worker read w_bak:
/// `w ← w − η(g + λ·g²·(w − w_bak))`. An update of several local steps is taken for one of a gradient `−u/η`. Adaptive,
/// the λ of an element is `λ/√(s + 10⁻⁷)`, where s is the mean of its g²: `s ← m·s + (1−m)·g²`.
/// What a worker was told last is taken for what it has read: with a visibility that lets it read while commits of its
/// are held back, as none of the library's does, their correction is of what it read later.
/// Source: as `dc_asgd`.
template <bool Adaptive>
struct compensation {
  double lambda = Adaptive ? 2 : 0.04;  ///< λ; 0: `sum`
  double rate = 1;  ///< η of the workers, which must be the same in all steps; above 10⁻³⁰, as floats have it
  double forget = 0.95;                 ///< m, of an adaptive one

  void check() const {
    detail::expect_finite("compensation: lambda", lambda);
    detail::expect_option(rate > 1e-30 && std::isfinite(rate), "compensation: rate", rate, "above 1e-30, finite");
    detail::expect_share("compensation: forget", forget);
  }
  static constexpr std::size_t slots = Adaptive;
  static constexpr bool lazy = true;
  static constexpr worker_copy copy = worker_copy::as_read;

  [[nodiscard]] constexpr double weight(commit_info const&) const noexcept { return 1.0; }
  template <std::floating_point T, class... Slot>
  [[nodiscard]] T step(fold_step, T w, T u, T const& as_read, Slot&... mean) const noexcept {
    T const g = u / static_cast<T>(rate), square = g * g;
    T by = static_cast<T>(lambda);
    if constexpr (Adaptive) {
      T const s = (..., (mean = static_cast<T>(forget) * mean + static_cast<T>(1 - forget) * square));
      by /= std::sqrt(s + static_cast<T>(1e-7));
    }
    return u - static_cast<T>(rate) * by * square * (w - as_read);
  }
};
using compensate = compensation<false>;          ///< DC-ASGD-c
using compensate_adaptive = compensation<true>;  ///< DC-ASGD-a

/// Delay-compensated ASGD: nobody waits, and servers correct each update by a cheap guess of how the gradient has
/// changed meanwhile. With λ = 0 its steps are `asp`'s, bit for bit. DC-ASGD-a is
/// `with(dc_asgd{}, compensate_adaptive{})`.
/// Source: Zheng, Meng, Wang, Chen, Yu, Ma, Liu, "Asynchronous Stochastic Gradient Descent with Delay Compensation",
/// ICML 2017.
struct dc_asgd {
  compensate fold{};  ///< how an update moves the parameters

  [[nodiscard]] constexpr unbounded admission() const noexcept { return {}; }
  [[nodiscard]] constexpr eager visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr compensate merge() const noexcept { return fold; }
  [[nodiscard]] constexpr every_step pace() const noexcept { return {}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "dc_asgd"; }
};
static_assert(protocol<dc_asgd>);

}  // namespace rubato
