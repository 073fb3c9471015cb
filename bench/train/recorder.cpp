// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/recorder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace rubato::bench {
namespace {

/// What is kept for later must not fill the memory, whatever the model's size.
constexpr std::size_t kept_bytes_max = std::size_t{512} << 20;

std::size_t affordable_looks(training const& job, std::size_t look_bytes) {
  if (job.transport == transport_kind::simulated) return std::numeric_limits<std::size_t>::max();
  return std::max<std::size_t>(1, kept_bytes_max / std::max<std::size_t>(1, look_bytes));
}

}  // namespace

checkpoints::checkpoints(std::uint64_t updates_in_clock, std::int64_t clocks, std::size_t points, std::size_t most)
    : updates_in_clock_(updates_in_clock) {
  auto const n = static_cast<std::uint64_t>(std::max<std::int64_t>(1, clocks));
  per_clock_ = std::clamp<std::uint64_t>(std::min(points, most) / n, 1, updates_in_clock);
  if (most < n) stride_ = (n + most - 1) / most;
}

std::uint64_t checkpoints::at(std::uint64_t k) const noexcept {
  std::uint64_t const part = k % per_clock_ * updates_in_clock_;
  return k / per_clock_ * stride_ * updates_in_clock_ + (part + per_clock_ - 1) / per_clock_;
}

recorder::recorder(training const& job, std::uint64_t updates_in_clock, curve_start from)
    : job_(job),
      checkpoints_(updates_in_clock, job.clocks, job.points, affordable_looks(job, from.look_bytes)),
      next_updates_(checkpoints_.at(1)),
      next_seconds_(job.look_every.value_or(0)),
      arrival_(job.target.value_or(-std::numeric_limits<double>::infinity()),
               updates_in_clock * static_cast<std::uint64_t>(job.clocks_at_target)) {
  curve_.push_back({.loss = from.loss});
}

recorder::recorder(training const& job, std::uint64_t updates_in_clock)
    : recorder(job, updates_in_clock,
               {.loss = job.work->objective(job.start()),
                .look_bytes = job.work->parameters() * sizeof(float)}) {}

void recorder::note(std::uint32_t rank, std::uint64_t steps, time_split const& spent) {
  std::lock_guard const guard(lock_);
  if (rank >= spent_.size()) {
    spent_.resize(rank + 1);
    steps_.resize(rank + 1);
  }
  spent_[rank] = spent;
  steps_[rank] = steps;
}

bool recorder::take(double seconds, std::uint64_t updates, evaluation of_now) {
  curve_point p{.seconds = seconds, .updates = updates};
  for (time_split const& worker : spent_) {
    p.spent.compute += worker.compute;
    p.spent.send += worker.send;
    p.spent.wait += worker.wait;
  }
  for (std::uint64_t const steps : steps_) p.steps += steps;
  if (job_.look_every)
    while (next_seconds_ <= seconds) next_seconds_ += *job_.look_every;
  while (checkpoints_.at(next_) <= updates) p.ends_clock |= checkpoints_.ends_clock(next_++);
  next_updates_.store(checkpoints_.at(next_), std::memory_order_relaxed);
  if (job_.transport != transport_kind::simulated) {
    curve_.push_back(p);
    kept_.push_back(std::move(of_now));
    return false;
  }
  p.loss = of_now();
  curve_.push_back(p);
  bool const arrived = arrival_.add(p);
  return (job_.stop.at_target && (arrived || !std::isfinite(p.loss))) ||
         (seconds > job_.stop.deadline && !arrival_.pending());
}

std::vector<curve_point> recorder::finish(double seconds, std::uint64_t updates, double loss) {
  for (std::size_t i = 0; i < kept_.size(); ++i) curve_[i + 1].loss = kept_[i]();
  kept_.clear();
  // In virtual time the last commits arrive after the last worker's end, and the run's time is up to that.
  for (curve_point& p : curve_) p.seconds = std::min(p.seconds, seconds);
  if (curve_.back().updates < updates || curve_.size() == 1)
    curve_.push_back({.seconds = seconds,
                      .updates = updates,
                      .loss = loss,
                      .steps = curve_.back().steps});
  else
    curve_.back().loss = loss;  // the same updates, now folded on every server
  return std::move(curve_);
}

}  // namespace rubato::bench
