// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>

#include "rubato/core/error.hpp"
#include "rubato/protocol/adaptive_period.hpp"

namespace rubato {

void detail::add_order(std::vector<period_order>& orders, period_order const& order,
                       clock_index now) {
  std::erase_if(orders, [&](period_order const& o) { return o.from >= order.from; });
  orders.push_back(order);
  auto const later = std::ranges::find_if(orders, [&](auto const& o) { return o.from > now; });
  if (later - orders.begin() > 1) orders.erase(orders.begin(), later - 1);
}

period_conductor::period_conductor(adaptive_period_options const& options)
    : options_(options), steps_(options.first_steps) {
  if (options.first_steps < 1) throw option_error("ada_comm: first_steps must be at least 1");
  if (options.interval <= duration::zero())
    throw option_error("ada_comm: interval must be above 0 ns");
  if (!(options.gamma > 0 && options.gamma < 1))
    throw option_error("ada_comm: gamma must be between 0 and 1");
  next_tick_ = time_point(options.interval);
  changes_.push_back({{}, steps_, "given"});
}

void period_conductor::join(worker_id w, clock_index at, time_point, pace_orders<period_order>& out) {
  clocks_[w] = at;
  for (period_order const& o : orders_) out.push_back({w, o});
}

void period_conductor::leave(worker_id w) { clocks_.erase(w); }

void period_conductor::commit(worker_id w, clock_index now_at, time_point) {
  auto const found = clocks_.find(w);
  if (found != clocks_.end()) found->second = std::max(found->second, now_at);
}

void period_conductor::observe(time_point at, double loss) {
  // Whatever the loss: it would be the same if asked again.
  next_sample_ = at < next_tick_ ? next_tick_ : time_point::max();
  if (!std::isfinite(loss)) return;
  bool const first = initial_.count == 0 || at < time_point(options_.interval / 10);
  (first ? initial_ : recent_).add(loss);
}

void period_conductor::tick(time_point now, pace_orders<period_order>& out) {
  if (now < next_tick_) return;
  next_tick_ += options_.interval * (1 + (now - next_tick_) / options_.interval);
  next_sample_ = next_tick_;
  if (recent_.count == 0 || !(initial_.mean > 0)) return;
  double const ratio = std::max(0.0, recent_.mean) / initial_.mean;
  recent_ = {};
  change(now, ratio, out);
}

void period_conductor::change(time_point now, double ratio, pace_orders<period_order>& out) {
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
clock_index period_conductor::oldest_start() const noexcept {
  clock_index least = clock_index::highest();
  for (auto const& [w, c] : clocks_) least = std::min(least, c);
  return least - 1;
}

commit_due adaptive_period::due(pace_point const& p) const noexcept {
  std::int64_t steps = options_.first_steps;
  for (period_order const& o : orders_)
    if (p.clock >= o.from) steps = o.steps;
  return {.steps = steps};
}

void adaptive_period::follow(period_order const& order, pace_point const& p) {
  detail::add_order(orders_, order, p.clock);
}

}  // namespace rubato
