// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/error.hpp"
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
inline void add_order(std::vector<period_order>& orders, period_order const& order,
                      clock_index now) {
  std::erase_if(orders, [&](period_order const& o) { return o.from >= order.from; });
  orders.push_back(order);
  auto const later = std::ranges::find_if(orders, [&](auto const& o) { return o.from > now; });
  if (later - orders.begin() > 1) orders.erase(orders.begin(), later - 1);
}
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
  explicit period_conductor(adaptive_period_options const& options)
      : options_(options), steps_(options.first_steps) {
    if (options.first_steps < 1) throw option_error("ada_comm: first_steps must be at least 1");
    if (options.interval <= duration::zero())
      throw option_error("ada_comm: interval must be above 0 ns");
    if (!(options.gamma > 0 && options.gamma < 1))
      throw option_error("ada_comm: gamma must be between 0 and 1");
    next_tick_ = time_point(options.interval);
    changes_.push_back({{}, steps_, "given"});
  }

  void join(worker_id w, clock_index at, time_point, pace_orders<period_order>& out) {
    clocks_[w] = at;
    for (period_order const& o : orders_) out.push_back({w, o});
  }
  void leave(worker_id w) { clocks_.erase(w); }
  void commit(worker_id w, clock_index now_at, time_point) {
    auto const found = clocks_.find(w);
    if (found != clocks_.end()) found->second = std::max(found->second, now_at);
  }

  void observe(time_point at, double loss) {
    // Whatever the loss: it would be the same if asked again.
    next_sample_ = at < next_tick_ ? next_tick_ : time_point::max();
    if (!std::isfinite(loss)) return;
    bool const first = initial_.count == 0 || at < time_point(options_.interval / 10);
    (first ? initial_ : recent_).add(loss);
  }

  void tick(time_point now, pace_orders<period_order>& out) {
    if (now < next_tick_) return;
    next_tick_ += options_.interval * (1 + (now - next_tick_) / options_.interval);
    next_sample_ = next_tick_;
    if (recent_.count == 0 || !(initial_.mean > 0)) return;
    double const ratio = std::max(0.0, recent_.mean) / initial_.mean;
    recent_ = {};
    change(now, ratio, out);
  }

  [[nodiscard]] time_point next_tick() const noexcept { return next_tick_; }
  [[nodiscard]] time_point next_sample() const noexcept { return next_sample_; }
  [[nodiscard]] std::span<pace_change const> changes() const noexcept { return changes_; }
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }

 private:
  struct running_mean {
    double mean = 0;
    std::size_t count = 0;
    void add(double x) noexcept { mean += (x - mean) / static_cast<double>(++count); }
  };

  void change(time_point now, double ratio, pace_orders<period_order>& out) {
    double const first = static_cast<double>(options_.first_steps);
    bool const fell = std::ceil(std::sqrt(ratio) * first) < static_cast<double>(steps_);
    double const next = fell ? std::ceil(std::sqrt(ratio) * first)
                             : std::ceil(options_.gamma * static_cast<double>(steps_));
    auto const steps = std::max<std::int64_t>(1, static_cast<std::int64_t>(next));
    if (steps == steps_) return;
    steps_ = steps;
    changes_.push_back({now, steps, fell ? "the loss fell" : "the loss did not fall enough"});
    // A commit may be under way to the coordinator, and nobody begins another clock before this
    // order is there: so all change τ at the same clock, unless one message takes much longer than
    // another.
    clock_index newest{};
    for (auto const& [w, c] : clocks_) newest = std::max(newest, c);
    detail::add_order(orders_, {steps, newest.next().next()}, oldest_start());
    for (auto const& [w, c] : clocks_) out.push_back({w, orders_.back()});
  }

  /// No joiner starts before it: a commit may be here before it is at the servers.
  [[nodiscard]] clock_index oldest_start() const noexcept {
    clock_index least = clock_index::highest();
    for (auto const& [w, c] : clocks_) least = std::min(least, c);
    return least - 1;
  }

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
  explicit adaptive_period(adaptive_period_options options = {}) noexcept : options_(options) {}

  [[nodiscard]] adaptive_period_options const& options() const noexcept { return options_; }

  [[nodiscard]] commit_due due(pace_point const& p) const noexcept {
    std::int64_t steps = options_.first_steps;
    for (period_order const& o : orders_)
      if (p.clock >= o.from) steps = o.steps;
    return {.steps = steps};
  }
  void follow(period_order const& order, pace_point const& p) {
    detail::add_order(orders_, order, p.clock);
  }
  void spent(duration) noexcept {}

  [[nodiscard]] period_conductor make_conductor() const { return period_conductor(options_); }

 private:
  adaptive_period_options options_;
  std::vector<period_order> orders_;  ///< by clock: that in force, and those to come
};
static_assert(conducted_pace<adaptive_period>);

}  // namespace rubato
