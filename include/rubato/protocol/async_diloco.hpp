// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/element_merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// `nesterov` where each step is one worker's update d, and late: the momentum takes the mean of N of them at a time,
/// and moves the parameters in proportion c in each step, and with what is left of 1 in the one that completes the N.
/// With N = 1 it is that. Source: Liu, Chhaparia, Douillard, Kale, Rusu, Shen, Szlam, Ranzato, "Asynchronous Local-SGD
/// Training for Language Modeling", 2024, arXiv 2401.09135, Algorithm 3 (Delayed Nesterov).
struct delayed_nesterov {
  double rate = 0.7;        ///< ε
  double mu = 0.9;          ///< β: what is left of m when it takes new ones
  std::int64_t buffer = 0;  ///< N; 0: as many as there are workers
  double activation = 0;    ///< c, from 0 to 1/N

  void check() const {
    detail::expect_finite("delayed_nesterov: rate", rate);
    detail::expect_share("delayed_nesterov: mu", mu);
    detail::expect_option(buffer >= 0, "delayed_nesterov: buffer", buffer, "1 or more, or 0 for as many as workers");
    double const most = buffer > 0 ? 1 / static_cast<double>(buffer) : 1;
    detail::expect_option(activation >= 0 && activation <= most, "delayed_nesterov: activation", activation,
                          "0 to 1/N");
  }
  static constexpr std::size_t slots = 2;

  [[nodiscard]] constexpr double weight(commit_info const&) const noexcept { return 1.0; }
  template <std::floating_point T>
  [[nodiscard]] constexpr T step(fold_step at, T, T d, T& m, T& sum) const noexcept {
    std::int64_t const n = buffer > 0 ? buffer : at.workers;
    T const share = 1 / static_cast<T>(n);
    sum += d;
    double active = activation;
    if ((at.number + 1) % n == 0) {
      m = static_cast<T>(mu) * m + share * sum;
      sum = 0;
      active = 1 - activation * static_cast<double>(n) + activation;
    }
    return static_cast<T>(rate) * (share * d + static_cast<T>(active * mu) * m);
  }
};
static_assert(element_merge<delayed_nesterov>);

/// DiLoCo where nobody waits: each worker's H local steps are a step of the servers as they come, with Delayed
/// Nesterov. Source: as `delayed_nesterov`.
struct async_diloco {
  std::int64_t steps = 500;  ///< H
  delayed_nesterov optimizer{};  ///< on the servers

  [[nodiscard]] constexpr unbounded admission() const noexcept { return {}; }
  [[nodiscard]] constexpr eager visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr delayed_nesterov merge() const noexcept { return optimizer; }
  [[nodiscard]] constexpr every pace() const noexcept { return {.steps = steps}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "async_diloco"; }
};
static_assert(protocol<async_diloco>);

}  // namespace rubato
