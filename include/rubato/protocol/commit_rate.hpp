// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rubato/core/time.hpp"
#include "rubato/protocol/conductor.hpp"
#include "rubato/protocol/rate_conductor.hpp"

namespace rubato {

/// ADSP's pace: commits at given times, as many local steps in between as the worker can make, no
/// waiting. Its conductor gives each worker a quota at every checkpoint, and searches for the rate
/// on which training goes fastest.
///
/// Commit number n is due at `start + (n − done)·Γ/quota`; it starts as much earlier as commits and
/// the pulls after them usually take, at the first step boundary from there on. `done` and `quota`
/// are the order's, but for commits that belong to the periods before: see `follow`. Where the next
/// order is late, commits beyond the quota are due at the rate R, which is what everybody on target
/// will be asked for: at `Γ/quota` who has caught up would run ahead of the others and draw the target
/// along. Before the first order no commit is due.
///
/// Beside an admission that waits, mind joiners: one that joins counts as being on target, so its
/// clock stays up to R behind the others'. A staleness of 2R or more lets nobody wait for it.
/// Source: 003 §3–4, Alg. 2; rules §5.
class commit_rate {
 public:
  /// Options that cannot be meant are refused by `make_conductor`, before anything starts.
  explicit commit_rate(commit_rate_options options = {}) noexcept : options_(options) {}

  /// The options that it was made with.
  [[nodiscard]] commit_rate_options const& options() const noexcept { return options_; }
  /// The smoothed time of a commit and the pull after it: the paper's O_i.
  [[nodiscard]] duration overhead() const noexcept { return overhead_; }

  [[nodiscard]] commit_due due(pace_point const& p) const noexcept {
    if (quota_.commits == 0) return {.at = time_point::max()};
    if (p.clock < overdue_below_) return {};
    duration const interval = quota_.period / (is_beyond_quota(p.clock) ? quota_.rate : quota_.commits);
    return {.at = deadline(p.clock) - std::min(overhead_, interval)};
  }

  /// A commit that was due and has not started when the checkpoint comes keeps its number and goes
  /// next: else one that is due at the checkpoint would be put off every time.
  ///
  /// Commits of the periods before of which the conductor had not heard, the overdue one included,
  /// take no time from those of the new period. Read to the letter, `Γ/quota` would have who is one
  /// behind commit more often than at the rate R, which a worker that is just able to keep R cannot:
  /// it would fall two behind. After missed checkpoints they may be more than the order asks for, as the conductor
  /// cannot have heard of all: the worker goes on from where it is, at the rate.
  void follow(commit_quota const& order, pace_point const& p) noexcept {
    bool const overdue = quota_.commits != 0 && deadline(p.clock) <= order.start;
    if (overdue) overdue_below_ = p.clock.next();
    std::int64_t const made = std::min(p.clock.value() + (overdue ? 1 : 0), due_by(order.start));
    quota_ = order;
    quota_.rate = std::max<std::int64_t>(order.rate, 1);
    std::int64_t const unheard = made - order.done.value();
    if (unheard <= 0) return;
    quota_.done = clock_index(made);
    quota_.commits = std::max(order.commits - unheard, quota_.rate);
  }

  void spent(duration d) noexcept {
    overhead_ = measured_ ? overhead_ + (d - overhead_) / 4 : d;
    measured_ = true;
  }

  [[nodiscard]] rate_conductor make_conductor() const { return rate_conductor(options_); }

 private:
  /// Whether the commit that ends this clock is none of the quota's.
  [[nodiscard]] bool is_beyond_quota(clock_index clock) const noexcept {
    return distance(quota_.done, clock) >= quota_.commits;
  }

  /// When the commit that ends this clock is to be done.
  [[nodiscard]] time_point deadline(clock_index clock) const noexcept {
    auto const number = static_cast<double>(distance(quota_.done, clock) + 1);
    auto const commits = static_cast<double>(quota_.commits);
    double const periods =
        is_beyond_quota(clock) ? 1 + (number - commits) / static_cast<double>(quota_.rate) : number / commits;
    return quota_.start + stretch(quota_.period, periods);
  }

  /// The clock at which the worker was to be then by the order in force; none without one.
  [[nodiscard]] std::int64_t due_by(time_point t) const noexcept {
    if (quota_.commits == 0) return 0;
    double const periods = to_seconds(t - quota_.start) / to_seconds(quota_.period);
    double const of_quota = std::min(periods, 1.0) * static_cast<double>(quota_.commits);
    double const beyond = std::max(periods - 1, 0.0) * static_cast<double>(quota_.rate);
    constexpr double most = 0x1p62;  // more than a clock comes to, less than overflows
    return quota_.done.value() + static_cast<std::int64_t>(std::clamp(of_quota + beyond + rounding, -most, most));
  }

  static constexpr double rounding = 1e-9;

  commit_rate_options options_;
  commit_quota quota_{};
  clock_index overdue_below_{};
  duration overhead_{};
  bool measured_ = false;
};

static_assert(conducted_pace<commit_rate>);

}  // namespace rubato
