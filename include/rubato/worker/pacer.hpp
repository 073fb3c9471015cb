// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/protocol/conductor.hpp"

namespace rubato {

/// A worker's pace at work: counts its local steps and says when the next commit is due. Not
/// synchronized.
template <pace_policy Pace>
class pacer {
 public:
  pacer(Pace pace, worker_id self) : pace_(std::move(pace)) { point_.worker = self; }

  /// Local steps since the last commit.
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }

  /// A clock begins: at the worker's start, and with each commit.
  /// @throws option_error when the pace answers what cannot be
  void begin(clock_index clock, time_point now) {
    if constexpr (conducted_pace<Pace>)
      if (exchange_) spent();  // nothing was read in the clock before
    steps_ = 0;
    point_.clock = clock;
    point_.committed_at = now;
    ask();
  }

  void step() noexcept { ++steps_; }

  /// Until when the worker is to pause before its commit, if it is. `now()` is asked only if it
  /// matters.
  template <class Now>
  [[nodiscard]] std::optional<time_point> pause(Now now) const {
    if (steps_ < due_.steps_max || now() >= due_.at) return std::nullopt;
    return due_.at;
  }

  /// Whether the commit is due at this step boundary.
  template <class Now>
  [[nodiscard]] bool due(Now now) const {
    return steps_ >= due_.steps && (due_.at == time_point::min() || now() >= due_.at);
  }

  template <class Order>
  void follow(Order const& order) {
    pace_.follow(order, point_);
    ask();
  }

  /// The commit that began this clock took so long to send.
  void committed(duration d) noexcept { exchange_ = d; }
  /// So did a fetch; the first one of a clock completes what a commit costs.
  void fetched(duration d) {
    if constexpr (conducted_pace<Pace>) {
      if (!exchange_) return;
      *exchange_ += d;
      spent();
      ask();
    }
  }

 private:
  void spent() {
    pace_.spent(*std::exchange(exchange_, std::nullopt));
  }

  void ask() {
    due_ = pace_.due(point_);
    if (due_.steps < 1 || due_.steps_max < due_.steps)
      throw option_error("pace: a commit is due after " + std::to_string(due_.steps) + " to " +
                         std::to_string(due_.steps_max) +
                         " steps, expected 1 or more, and no less at most than at least");
  }

  Pace pace_;
  pace_point point_{};
  commit_due due_{};
  std::int64_t steps_ = 0;
  std::optional<duration> exchange_{duration::zero()};  ///< before the first commit: the first pull
};

}  // namespace rubato
