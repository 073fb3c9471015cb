// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/element_merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// A spring between each worker's variable x, which servers keep for it, and the parameters w, the center: with a
/// commit x moves by the worker's update, then both by `e = α(x − w)`: `x ← x − e`, `w ← w + e`. What leaves the copies
/// enters the center. Source: as `easgd`.
struct elastic {
  double beta = 0.9;  ///< β: α times the number of workers
  /// α, above 0 and below 1; none: β/M. Where so few workers are left that this is above 0.9, it is 0.9: from 1 on
  /// copies and center would fly apart.
  std::optional<double> alpha{};

  void check() const {
    detail::expect_option(beta > 0 && std::isfinite(beta), "elastic: beta", beta, "above 0, finite");
    if (alpha) detail::expect_option(*alpha > 0 && *alpha < 1, "elastic: alpha", *alpha, "above 0, and below 1");
  }
  static constexpr std::size_t slots = 0;
  static constexpr worker_copy copy = worker_copy::elastic;

  [[nodiscard]] constexpr double weight(commit_info const&) const noexcept { return 1.0; }
  template <std::floating_point T>
  [[nodiscard]] constexpr T step(fold_step at, T center, T u, T& x) const noexcept {
    x += u;
    T const e = static_cast<T>(alpha ? *alpha : std::min(beta / at.workers, 0.9)) * (x - center);
    x -= e;
    return e;
  }
};
static_assert(element_merge<elastic>);

/// Elastic averaging SGD, asynchronous: each worker trains a variable of its own, and each τ local steps it and the
/// center draw one another nearer. `cluster.parameters()` is the center. EAMSGD is this with Nesterov's momentum in the
/// workers' local steps, see `model::heavy_ball` for a momentum to begin with. A worker's next gradient is taken where
/// the spring has led it, in the paper where it was before.
/// Source: Zhang, Choromanska, LeCun, "Deep learning with Elastic Averaging SGD", NIPS 2015, its
/// asynchronous form.
struct easgd {
  std::int64_t steps = 10;  ///< τ
  elastic fold{};  ///< how an update moves the parameters

  [[nodiscard]] constexpr unbounded admission() const noexcept { return {}; }
  [[nodiscard]] constexpr eager visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr elastic merge() const noexcept { return fold; }
  [[nodiscard]] constexpr every pace() const noexcept { return {.steps = steps}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "easgd"; }
};
static_assert(protocol<easgd>);

}  // namespace rubato
