// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string_view>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// `v ← βv + α·mean of u`, `w ← w + v`: `momentum` whose step is a share α of the mean. Source: as `slow_mo`.
struct slow_momentum {
  double alpha = 1;   ///< α: the slow learning rate
  double beta = 0.5;  ///< β: what is left of v in each step

  void check() const {
    detail::expect_finite("slow_momentum: alpha", alpha);
    detail::expect_share("slow_momentum: beta", beta);
  }
  [[nodiscard]] constexpr double weight(commit_info const& c) const noexcept {
    return alpha / static_cast<double>(c.workers);
  }
  [[nodiscard]] constexpr double decay() const noexcept { return beta; }
};
static_assert(velocity_merge<slow_momentum>);

/// SlowMo: all workers make τ local steps, and the mean of what came of them is a step of a slow momentum. The
/// workers' learning rate γ must stay the same, else the velocity that is left is to be scaled, too. With β = 0 and
/// α = 1 it is `fixed_ada_comm`.
/// Source: Wang, Tantia, Ballas, Rabbat, "SlowMo: Improving Communication-Efficient Distributed SGD with Slow
/// Momentum", ICLR 2020, Algorithm 1.
struct slow_mo {
  std::int64_t steps = 12;  ///< τ
  slow_momentum optimizer{};  ///< on the servers

  [[nodiscard]] constexpr barrier admission() const noexcept { return {}; }
  [[nodiscard]] constexpr strict visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr slow_momentum merge() const noexcept { return optimizer; }
  [[nodiscard]] constexpr every pace() const noexcept { return {.steps = steps}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "slow_mo"; }
};
static_assert(protocol<slow_mo>);

}  // namespace rubato
