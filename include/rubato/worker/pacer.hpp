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
    steps_ = 0;
    point_.clock = clock;
    point_.committed_at = now;
    ask();
  }

  void step() {
    ++steps_;
    if constexpr (conducted_pace<Pace>)
      if (exchange_) end_exchange();
  }

  /// Until when the worker is to pause before its commit, if it is. `now()` is asked only if it
  /// matters.
  template <class Now>
  [[nodiscard]] std::optional<time_point> pause(Now now) const {
    if (steps_ < due_.steps_max || due_.at == time_point::max()) return std::nullopt;
    return now() < due_.at ? std::optional(due_.at) : std::nullopt;
  }

  /// Whether the commit is due at this step boundary.
  /// @throws option_error when it waits for a time, and a million steps in a row took none: they do so
  /// in a simulator where work costs nothing, and it would go on for ever
  template <class Now>
  [[nodiscard]] bool due(Now now) {
    if (steps_ < due_.steps) return false;
    if (due_.at == time_point::min()) return true;
    time_point const t = now();
    if (t >= due_.at) return true;
    timeless_steps_ = t == last_step_ ? timeless_steps_ + 1 : 0;
    last_step_ = t;
    if (timeless_steps_ > timeless_steps_max)
      throw option_error("pace: worker " + std::to_string(point_.worker.value()) +
                         " waits for a time to commit, and " + std::to_string(timeless_steps_max) +
                         " steps took none; expected steps that take time (in the simulator a "
                         "scenario.speed.work_cost above 0)");
    return false;
  }

  template <class Order>
  void follow(Order const& order) {
    pace_.follow(order, point_);
    ask();
  }

  /// The commit that began this clock took so long to send.
  void committed(duration d) {
    if constexpr (conducted_pace<Pace>) {
      if (exchange_) end_exchange();
      exchange_ = d;
      has_committed_ = true;
    }
  }
  /// So did a fetch; those before a clock's first step are part of what a commit costs.
  void fetched(duration d) {
    if (exchange_) *exchange_ += d;
  }

 private:
  void end_exchange() {
    duration const took = *std::exchange(exchange_, std::nullopt);
    if (!has_committed_ && took == duration::zero()) return;  // nothing has been measured
    pace_.spent(took);
    ask();
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
  std::optional<duration> exchange_{duration::zero()};  ///< under way; at first, of pulls alone
  bool has_committed_ = false;
  static constexpr std::uint32_t timeless_steps_max = 1'000'000;
  std::uint32_t timeless_steps_ = 0;
  time_point last_step_ = time_point::min();
};

}  // namespace rubato
