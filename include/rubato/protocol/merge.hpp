// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <optional>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// `w ← w + u`. Source: 001 §2. The only merge that is exact on integer tables.
struct sum {
  static constexpr bool exact = true;
  [[nodiscard]] constexpr double weight(commit_info const&) const noexcept { return 1.0; }
};
static_assert(exact_merge<sum>);

/// `w ← w + u/M`, so that M workers that each move their replica move the parameters by the mean.
/// Under a barrier M is the number of commits folded for the stamp. Otherwise it is the workers of the run, without
/// the lost: who has finished early still counts, else the others' updates would weigh more at the end of a run. Of
/// five workers under SSP each update is worth 0.2 from the first to the last, also when four have returned.
/// Source: rules §4.
struct average {
  [[nodiscard]] constexpr double weight(commit_info const& c) const noexcept {
    return 1.0 / static_cast<double>(c.workers);
  }
};
static_assert(merge_policy<average> && !exact_merge<average>);

/// `w ← w + λ·u`; λ is 1/M unless set, with M as `average` has it: of five workers 0.2, also for the last one that
/// works. Source: 000 §4 (ConSGD's global learning rate).
struct scale {
  std::optional<double> lambda{};  ///< λ; none: 1/M

  void check() const {
    if (lambda) detail::expect_finite("scale: lambda", *lambda);
  }
  [[nodiscard]] constexpr double weight(commit_info const& c) const noexcept {
    return lambda ? *lambda : 1.0 / static_cast<double>(c.workers);
  }
};
static_assert(merge_policy<scale>);

/// `w_{t+1} = w_t + η·u + μ(w_t − w_{t−1})`; η is 1/M unless set, with M as `average` has it. Source: 003 Eq. 1.
struct momentum {
  double mu = 0.9;  ///< μ: what is left of the last step; with 1 all that has come is added anew in each
  std::optional<double> eta{};  ///< η; none: 1/M

  void check() const {
    detail::expect_option(mu > -1 && mu <= 1, "momentum: mu", mu, "above -1, and at most 1");
    if (eta) detail::expect_finite("momentum: eta", *eta);
  }
  [[nodiscard]] constexpr double weight(commit_info const& c) const noexcept {
    return eta ? *eta : 1.0 / static_cast<double>(c.workers);
  }
  [[nodiscard]] constexpr double decay() const noexcept { return mu; }
};
static_assert(velocity_merge<momentum>);

}  // namespace rubato
