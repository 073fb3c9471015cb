// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/mpi_desk.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "rubato/net/impl/mpi_pipe.hpp"

namespace rubato::net::detail {
namespace {

using namespace std::chrono_literals;

// An answer is on its way for some microseconds, so who asks looks for it without a pause; where whoever is to answer
// may need this processor, for no longer than it takes to let it have that.
constexpr auto spins_for = 50us;
constexpr auto spins_in_a_crowd_for = 2us;
constexpr auto yields_for = 500us;
constexpr auto yields_for_a_sum = 20ms;  // it goes on at each look, of all ranks in turn
constexpr auto shortest_sleep = 20us;
constexpr auto longest_sleep = 1ms;
// MPI cuts a large message into many, and goes on with the next at each look.
constexpr auto carries_for = 50us;
constexpr auto longest_sleep_under_way = 100us;
// Who yields to others that do not may get its next turn very late; who sleeps is let in at once.
constexpr auto yield_of_one = 200us;
constexpr auto without_yields_for = 20ms;
constexpr auto elsewhere_for = 50us;  // who has been, comes to wait anew

}  // namespace

struct mpi_desk::alarm {
  alarm(mpi_desk& d, clock::time_point when, std::function<void()> f)
      : desk(d), at(when, d.alarms_made_++), ring(std::move(f)) {
    desk.alarms_.emplace(at, this);
  }
  alarm(alarm const&) = delete;
  alarm& operator=(alarm const&) = delete;
  ~alarm() { desk.alarms_.erase(at); }

  mpi_desk& desk;
  place at;
  std::function<void()> ring;
};

mpi_desk::mpi_desk() : world_(mpi_world::get()) {
  std::lock_guard const guard(world_.mutex());
  world_.enter();
}

/// Whoever has called meanwhile is told that nobody is there.
mpi_desk::~mpi_desk() {
  {
    std::lock_guard const guard(world_.mutex());
    world_.leave();
    std::ranges::move(brought_, std::back_inserter(tasks_));
    brought_.clear();
  }
  try {
    for (auto const& f : std::exchange(tasks_, {})) f();
  } catch (...) {  // MPI has failed, and the job with it
  }
}

std::shared_ptr<void> mpi_desk::at(clock::time_point when, std::function<void()> f) {
  return std::make_shared<alarm>(*this, when, std::move(f));
}

// Who sleeps does so for a millisecond at most, and looks then; another network's thread need not wake it.
void mpi_desk::bring(std::function<void()> f) { brought_.push_back(std::move(f)); }
void mpi_desk::ready(std::shared_ptr<mpi_pipe> which) { ready_.push_back(std::move(which)); }

bool mpi_desk::ring(clock::time_point now) {
  if (alarms_.empty() || alarms_.begin()->first.first > now) return false;
  // Moved out, since its owner may drop the handle meanwhile.
  auto const f = std::move(alarms_.begin()->second->ring);
  alarms_.erase(alarms_.begin());
  f();
  return true;
}

void mpi_desk::look_after_messages() {
  sums_ = false;
  for (std::size_t i = 0; i < under_way_.size();) {
    auto const moved = under_way_[i]->go_on();
    was_busy_ = was_busy_ || moved.any;
    sums_ = sums_ || moved.is_sum;
    if (moved.still) ++i;
    else under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool mpi_desk::step(clock::time_point now) {
  if (!under_way_.empty()) look_after_messages();
  if (!tasks_.empty()) {
    auto const f = std::move(tasks_.front());
    tasks_.pop_front();
    f();
    return true;
  }
  return ring(now) || look();
}

/// At what has come from other ranks.
bool mpi_desk::look() {
  std::shared_ptr<mpi_pipe> pipe;
  std::vector<std::shared_ptr<void const>> done;
  {
    std::lock_guard const guard(world_.mutex());
    if (world_.has_lingering()) done = world_.tidy();
    if (ready_.empty() && brought_.empty() && !world_.take_one(this)) return false;
    pipe = std::exchange(taken_from_, nullptr);
    while (!brought_.empty()) {
      tasks_.push_back(std::move(brought_.front()));
      brought_.pop_front();
    }
    if (pipe == nullptr && !ready_.empty()) {
      pipe = std::move(ready_.front());
      ready_.pop_front();
      pipe->take();
    }
  }
  if (pipe != nullptr) pipe->taken();
  return true;
}

void mpi_desk::run_one(clock::time_point deadline) {
  auto now = clock::now();
  if (std::exchange(was_busy_, false) || now - left_at_ > elsewhere_for) busy_at_ = now;
  while (!interrupted_.load(std::memory_order_relaxed) || !interrupted_.exchange(false)) {
    if (step(now)) {
      was_busy_ = true;
      return;
    }
    now = clock::now();
    if (now >= deadline) break;
    wait(now, deadline);
  }
  left_at_ = now;
}

void mpi_desk::wait(clock::time_point now, clock::time_point deadline) {
  if (std::exchange(was_busy_, false)) busy_at_ = now;
  auto const idle = now - busy_at_;
  bool const carries = !under_way_.empty();
  if (idle < (world_.is_crowded() ? spins_in_a_crowd_for : spins_for)) return;
  if (carries && now - paused_at_ < carries_for) return;
  if (idle < (sums_ ? clock::duration(yields_for_a_sum) : yields_for) && (sums_ || now >= yields_from_)) {
    ::sched_yield();
    paused_at_ = clock::now();
    if (paused_at_ - now > yield_of_one) yields_from_ = paused_at_ + without_yields_for;
    return;
  }
  auto const pause = std::clamp<clock::duration>(
      idle / 8, shortest_sleep, carries ? clock::duration(longest_sleep_under_way) : clock::duration(longest_sleep));
  auto until = std::min<clock::time_point>(deadline, now + pause);
  if (!alarms_.empty()) until = std::min(until, alarms_.begin()->first.first);
  std::unique_lock guard(sleep_);
  woken_.wait_until(guard, until, [this] { return interrupted_.load(); });
  paused_at_ = clock::now();
}

void mpi_desk::wake() noexcept {
  if (interrupted_.exchange(true)) return;
  { std::lock_guard const guard(sleep_); }
  woken_.notify_one();
}

}  // namespace rubato::net::detail
