// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// Stale updates count less: `w ← w + u / max(1, age + offset)^power`, divided by the number of updates that are folded
/// together where `averaged`. The age is how many folds there were since the worker read what it computed at, so servers
/// that received commits in another order weigh them otherwise.
/// Sources: Zhang, Gupta, Lian, Liu, "Staleness-aware Async-SGD", IJCAI 2016, §2.4 (power 1, offset 0); Nguyen et al.,
/// AISTATS 2022 (power ½, offset 1, averaged).
struct discount {
  double power = 1;       ///< 0: all alike
  double offset = 0;      ///< added to the age; above −1
  bool averaged = false;  ///< 1/K more, of a round of K

  void check() const {
    detail::expect_option(power >= 0 && std::isfinite(power), "discount: power", power, "0 or more, finite");
    detail::expect_option(offset > -1 && std::isfinite(offset), "discount: offset", offset, "above -1, finite");
  }
  static constexpr bool by_age = true;  ///< so that nobody reads for another

  [[nodiscard]] double weight(commit_info const& c) const noexcept {
    double const worth = std::pow(std::max(1.0, static_cast<double>(c.age) + offset), -power);
    return averaged ? worth / static_cast<double>(c.workers) : worth;
  }
};
static_assert(merge_policy<discount>);

}  // namespace rubato
