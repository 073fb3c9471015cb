// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/protocol/rate_conductor.hpp"

namespace rubato {

rate_conductor::rate_conductor(commit_rate_options const& options)
    : period_(options.check_period), search_(options) {}

void rate_conductor::join(worker_id w, clock_index at, time_point, pace_orders<commit_quota>&) {
  members_[w] = {.offset = target_ - at.value(), .commits = target_, .newest = target_};
}

void rate_conductor::leave(worker_id w) { members_.erase(w); }

void rate_conductor::commit(worker_id w, clock_index now_at, time_point t) {
  auto const found = members_.find(w);
  if (found == members_.end()) return;
  member& m = found->second;
  m.newest = std::max(m.newest, now_at.value() + m.offset);
  if (t <= next_checkpoint_) m.commits = m.newest;
}

void rate_conductor::observe(time_point at, double loss) { search_.observe(at, loss); }

void rate_conductor::tick(time_point now, pace_orders<commit_quota>& out) {
  if (now < next_checkpoint_) return;
  // A driver that comes late by whole periods has missed checkpoints; they are not made up for.
  time_point const start = next_checkpoint_ + period_ * ((now - next_checkpoint_) / period_);
  if (start != next_checkpoint_) count_all();
  next_checkpoint_ = start + period_;
  std::int64_t most = target_;
  for (auto const& [w, m] : members_) most = std::max(most, m.commits);
  target_ = most + search_.checkpoint(start);
  for (auto const& [w, m] : members_)
    out.push_back({w, {.start = start,
                       .period = period_,
                       .done = clock_index(m.commits - m.offset),
                       .commits = target_ - m.commits}});
  count_all();
}

void rate_conductor::count_all() noexcept {
  for (auto& [w, m] : members_) m.commits = m.newest;
}

}  // namespace rubato
