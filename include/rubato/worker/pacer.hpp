// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "rubato/protocol/rules.hpp"

namespace rubato {

/// A worker's pace at work: counts its local steps and says when the next commit is due. Not
/// synchronized.
class pacer {
 public:
  pacer(pace_rule pace, worker_id self) : pace_(std::move(pace)) { point_.worker = self; }

  /// Local steps since the last commit.
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }

  /// A clock begins: at the worker's start, and with each commit.
  /// @throws option_error when the pace answers what cannot be
  void begin(clock_index clock, time_point now);

  void step() {
    ++steps_;
    if (conducted_ && exchange_) end_exchange();
  }

  /// Until when the worker is to pause before its commit; `min()` if it is not. `now()` is asked only if
  /// it matters.
  template <class Now>
  [[nodiscard]] time_point pause(Now now) const {
    if (steps_ < due_.steps_max || due_.at == time_point::max()) return time_point::min();
    return now() < due_.at ? due_.at : time_point::min();
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
    count_timeless(t);
    return false;
  }

  /// @throws option_error when the order cannot be one of the pace's conductor
  void follow(conductor::order const& order);

  /// The commit that began this clock took so long to send.
  void committed(duration d);
  /// So did a fetch; those before a clock's first step are part of what a commit costs.
  void fetched(duration d) {
    if (exchange_) *exchange_ += d;
  }

 private:
  void end_exchange();
  void ask();
  void count_timeless(time_point t);

  pace_rule pace_;
  bool conducted_ = pace_.conducted();
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
