// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <chrono>

#include "rubato/core/time.hpp"

namespace rubato {

/// Makes what somebody does take `slowness` times as long, by pauses: for trying out heterogeneity on one machine.
///
/// A pause lasts longer than it was asked to, by what a system takes to wake somebody (here some 60 us). That much
/// comes off the pauses after it, or a step of 100 us would be slowed by twice what a step of a second is. A machine that
/// was away for long is not made up for: no more than `credit_max` is. Not thread-safe; reads no clock.
class slow_motion {
 public:
  static constexpr duration credit_max = std::chrono::milliseconds(1);
  static constexpr duration pause_max = std::chrono::hours(24 * 365);  // so that no clock overflows

  /// @param slowness at most 1: no pauses
  explicit slow_motion(double slowness = 1) noexcept : more_(std::max(0.0, slowness - 1)) {}

  /// @param busy how long it was at work since it was asked the last time
  /// @return how long to pause for, 0 or more
  [[nodiscard]] duration pause_after(duration busy) noexcept {
    owed_ = std::min(owed_ + std::min(stretch(busy, more_), pause_max), pause_max);
    return std::max(owed_, duration::zero());
  }
  /// @param pause how long the pause was
  void paused_for(duration pause) noexcept { owed_ = std::max(owed_ - pause, -credit_max); }

  /// Whether there are pauses at all.
  [[nodiscard]] explicit operator bool() const noexcept { return more_ > 0; }

 private:
  double more_;
  duration owed_{};
};

}  // namespace rubato
