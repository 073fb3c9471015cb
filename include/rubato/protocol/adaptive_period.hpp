// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/time.hpp"
#include "rubato/protocol/conductor.hpp"

namespace rubato {

/// What ADACOMM can be told.
struct adaptive_period_options {
  std::int64_t first_steps = 16;  ///< τ_0: local steps per commit at the beginning; at least 1
  duration interval = std::chrono::seconds(60);  ///< how often τ is looked at; above 0
  double gamma = 0.5;  ///< what τ is multiplied by when the loss asks for no fewer; in (0, 1)
};

/// What ADACOMM's conductor orders.
struct period_order {
  std::int64_t steps = 1;  ///< τ
  clock_index from{};      ///< for this clock and the later ones
};

namespace detail {
/// Adds an order to others, by clock. It overrules those for later clocks; of those for clocks up
/// to `now` the last one is kept.
void add_order(std::vector<period_order>& orders, period_order const& order, clock_index now);
}  // namespace detail

/// ADACOMM's half in the coordinator: at each interval's end `τ ← ceil(sqrt(F(t)/F(0))·τ_0)`, or
/// `ceil(γτ)` if that is not smaller. F is the loss where the run evaluates it, and the mean of an
/// interval's reports where bodies report it; F(0) then is that of the first tenth of the first
/// interval. As long as no loss is known τ stays.
/// A state machine without I/O. Source: 003 §2.2 (Wang & Joshi 2018); rules §5.
class period_conductor {
 public:
  using order_type = period_order;

  /// @throws option_error naming the option and what was expected
  explicit period_conductor(adaptive_period_options const& options);

  void join(worker_id w, clock_index at, time_point, pace_orders<period_order>& out);
  void leave(worker_id w);
  void commit(worker_id w, clock_index now_at, time_point t);
  void observe(time_point at, double loss);
  void tick(time_point now, pace_orders<period_order>& out);

  [[nodiscard]] time_point next_tick() const noexcept { return next_tick_; }
  [[nodiscard]] time_point next_sample() const noexcept { return next_sample_; }
  [[nodiscard]] std::span<pace_change const> changes() const noexcept { return changes_; }
  /// τ as it is now.
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }

 private:
  struct running_mean {
    double mean = 0;
    std::size_t count = 0;
    void add(double x) noexcept { mean += (x - mean) / static_cast<double>(++count); }
  };

  void change(time_point now, double ratio, pace_orders<period_order>& out);

  [[nodiscard]] clock_index oldest_start() const noexcept;

  adaptive_period_options options_;
  std::int64_t steps_;
  time_point next_tick_;
  time_point next_sample_{};
  running_mean initial_;  ///< F(0)
  running_mean recent_;   ///< since the last tick
  std::map<worker_id, clock_index> clocks_;
  std::vector<period_order> orders_;  ///< that in force, and those for clocks that nobody is in yet
  std::vector<pace_change> changes_;
};
static_assert(pace_conductor<period_conductor>);

/// ADACOMM's pace: every τ-th local step commits, and τ shrinks as the loss does. See
/// `period_conductor`. Source: 003 §2.2.
class adaptive_period {
 public:
  /// Options that cannot be meant are refused by `make_conductor`, before anything starts.
  explicit adaptive_period(adaptive_period_options options = {}) noexcept : options_(options) {}

  /// The options that it was made with.
  [[nodiscard]] adaptive_period_options const& options() const noexcept { return options_; }

  [[nodiscard]] commit_due due(pace_point const& p) const noexcept;
  void follow(period_order const& order, pace_point const& p);
  void spent(duration) noexcept {}

  [[nodiscard]] period_conductor make_conductor() const { return period_conductor(options_); }

 private:
  adaptive_period_options options_;
  std::vector<period_order> orders_;  ///< by clock: that in force, and those to come
};
static_assert(conducted_pace<adaptive_period>);

}  // namespace rubato
