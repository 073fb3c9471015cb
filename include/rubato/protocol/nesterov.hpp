// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/element_merge.hpp"

namespace rubato {

/// Nesterov's momentum on the mean d of a step's updates: `m ← μm + d`, `w ← w + η(d + μm)`. With μ = 0 and η = 1 it is
/// `average`. Source: Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep
/// learning", ICML 2013, in the form that looks ahead from where it stands.
struct nesterov {
  double rate = 0.7;  ///< η
  double mu = 0.9;    ///< μ: what is left of m in each step

  void check() const {
    detail::expect_finite("nesterov: rate", rate);
    detail::expect_share("nesterov: mu", mu);
  }
  static constexpr std::size_t slots = 1;

  [[nodiscard]] constexpr double weight(commit_info const& c) const noexcept {
    return 1.0 / static_cast<double>(c.workers);
  }
  template <std::floating_point T>
  [[nodiscard]] constexpr T step(fold_step, T, T d, T& m) const noexcept {
    m = static_cast<T>(mu) * m + d;
    return static_cast<T>(rate) * (d + static_cast<T>(mu) * m);
  }
};
static_assert(element_merge<nesterov>);

}  // namespace rubato
