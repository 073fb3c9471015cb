// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <optional>

#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// `w ← w + u`. Source: 001 §2. The only merge that is exact on integer tables.
struct sum {
  static constexpr bool exact = true;
  [[nodiscard]] constexpr double weight(commit_info const&) const noexcept { return 1.0; }
};
static_assert(exact_merge<sum>);

/// `w ← w + u/M`, so that M workers that each move their replica move the parameters by the mean.
/// Under a barrier M is the number of commits folded for the stamp, otherwise the live workers.
struct average {
  [[nodiscard]] constexpr double weight(commit_info const& c) const noexcept {
    return 1.0 / static_cast<double>(c.workers);
  }
};
static_assert(merge_policy<average> && !exact_merge<average>);

/// `w ← w + λ·u`; λ is 1/M unless set. Source: 000 §4 (ConSGD's global learning rate).
struct scale {
  std::optional<double> lambda{};

  [[nodiscard]] constexpr double weight(commit_info const& c) const noexcept {
    return lambda ? *lambda : 1.0 / static_cast<double>(c.workers);
  }
};
static_assert(merge_policy<scale>);

/// `w_{t+1} = w_t + η·u + μ(w_t − w_{t−1})`; η is 1/M unless set. Source: 003 Eq. 1.
struct momentum {
  double mu = 0.9;
  std::optional<double> eta{};

  [[nodiscard]] constexpr double weight(commit_info const& c) const noexcept {
    return eta ? *eta : 1.0 / static_cast<double>(c.workers);
  }
  [[nodiscard]] constexpr double decay() const noexcept { return mu; }
};
static_assert(velocity_merge<momentum>);

}  // namespace rubato
