// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/protocol/rate_conductor.hpp"

namespace rubato {

rate_conductor::rate_conductor(commit_rate_options const& options)
    : period_(options.check_period), search_(options) {}

void rate_conductor::join(worker_id w, clock_index at, time_point t, pace_orders<commit_quota>&) {
  members_[w] = {
      .offset = target_ - at.value(), .newest = target_, .counted = checkpoint_after(t), .before = target_};
}

void rate_conductor::leave(worker_id w) { members_.erase(w); }

void rate_conductor::commit(worker_id w, clock_index now_at, time_point t) {
  auto const found = members_.find(w);
  if (found == members_.end()) return;
  member& m = found->second;
  if (time_point const next = checkpoint_after(t); next != m.counted) {
    m.before = m.newest;
    m.counted = next;
  }
  m.newest = std::max(m.newest, now_at.value() + m.offset);
}

void rate_conductor::observe(time_point at, double loss) { search_.observe(at, loss); }

void rate_conductor::tick(time_point now, pace_orders<commit_quota>& out) {
  if (now < next_checkpoint_) return;
  // A driver that comes late by whole periods has missed checkpoints. They are not made up for, but workers went on at
  // the rate: those that were to commit at `start` have, though it may have been a little later.
  std::int64_t const missed = (now - next_checkpoint_) / period_;
  time_point const start = next_checkpoint_ + period_ * missed;
  next_checkpoint_ = start + period_;
  std::int64_t const due = target_ + missed * search_.rate();
  std::int64_t most = target_;
  for (auto const& [w, m] : members_) most = std::max({most, m.commits(start), std::min(m.newest, due)});
  std::int64_t const rate = search_.checkpoint(start);
  target_ = most + rate;
  for (auto const& [w, m] : members_)
    out.push_back({w, {.start = start,
                       .period = period_,
                       .done = clock_index(m.commits(start) - m.offset),
                       .commits = target_ - m.commits(start),
                       .rate = rate}});
}

/// The first one that is not before `t`, of those that are still to be called.
time_point rate_conductor::checkpoint_after(time_point t) const noexcept {
  if (t <= next_checkpoint_) return next_checkpoint_;
  time_point const before = next_checkpoint_ + period_ * ((t - next_checkpoint_) / period_);
  return before == t ? t : before + period_;
}

}  // namespace rubato
