// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/core/error.hpp"
#include "rubato/core/run_stopped.hpp"
#include "rubato/run/life.hpp"

namespace rubato {

void life::begin() {
  if (busy_.exchange(true))
    throw usage_error(errc::bad_option,
                      "run: a run of this " + std::string(what_) + " is under way already");
  std::lock_guard const guard(lock_);
  stopping_ = false;
  awake_ = living_ = leaving_ = 0;
  ended_ = {};
  entered_ = was_stopped_ = false;
  failure_.forget();
}

void life::end() {
  busy_ = false;
  std::lock_guard const guard(lock_);
  failure_.rethrow();
}

bool life::enter_if_running() {
  std::lock_guard const guard(lock_);
  if (living_ == 0) return false;
  ++living_;
  ++awake_;
  return true;
}

void life::enter() {
  std::lock_guard const guard(lock_);
  entered_ = true;
  ++living_;
  ++awake_;
}

void life::live(participant& p) noexcept {
  try {
    p.live();
  } catch (run_stopped const&) {
  } catch (...) {
    fail(std::current_exception());
  }
  try {
    p.end();
  } catch (...) {
    fail(std::current_exception());
  }
  note_end(time());
  try {
    p.leave();
  } catch (...) {
    fail(std::current_exception());
  }
  cancel();
}

/// Who goes may have been the last one who could wake those who sleep: then it stays until that has been said.
void life::cancel() {
  bool leaves_sleepers = false;
  {
    std::lock_guard const guard(lock_);
    ++leaving_;
    leaves_sleepers = falls_asleep() && living_ != leaving_;
  }
  if (leaves_sleepers) fail_of_deadlock();
  std::lock_guard const guard(lock_);
  --leaving_;
  if (--living_ == 0) changed_.notify_all();
}

/// Of a run that is being stopped everybody is about to be woken.
void life::fail_of_deadlock() noexcept {
  if (stopping_) return;
  try {
    fail_of_deadlock(who_waits());
  } catch (...) {
    fail(std::current_exception());
  }
}

void life::fail_of_deadlock(std::string const& who_waits) noexcept {
  try {
    throw deadlock_error("deadlock: nobody can run" + who_waits);
  } catch (...) {  // or of what there is no memory for
    fail(std::current_exception());
  }
}

void life::await_all() {
  std::unique_lock guard(lock_);
  changed_.wait(guard, [this] { return living_ == 0; });
}

void life::stop() noexcept {
  stopping_ = true;
  wake_all();
}

void life::stop_as_asked() noexcept {
  {
    std::lock_guard const guard(lock_);
    stopping_ = true;
    if (living_ != 0 || !entered_) was_stopped_ = true;
  }
  wake_all();
}

void life::fail(std::exception_ptr why) noexcept {
  {
    std::lock_guard const guard(lock_);
    failure_.note(why);
  }
  tell_failure(why);
  stop();
}

bool life::has_failed() const {
  std::lock_guard const guard(lock_);
  return static_cast<bool>(failure_);
}

bool life::was_stopped() const {
  std::lock_guard const guard(lock_);
  return was_stopped_;
}

time_point life::ended() const {
  std::lock_guard const guard(lock_);
  return ended_;
}

void life::note_end(time_point t) {
  std::lock_guard const guard(lock_);
  ended_ = std::max(ended_, t);
}

}  // namespace rubato
