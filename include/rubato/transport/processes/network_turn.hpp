// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "rubato/core/thread_source.hpp"
#include "rubato/net/network.hpp"

namespace rubato::detail {

/// Whose turn it is to use the network and what lives in it: one thread's at a time.
///
/// A thread that wants something done takes the turn for as long as that takes. A thread that waits
/// for something to happen runs the network itself when nobody else does, so that an answer finds the
/// thread that asked awake; others that wait meanwhile sleep. While nobody waits or stays, a thread in the
/// background may run it.
class network_turn {
 public:
  using clock = net::network::clock;

  explicit network_turn(net::network& n)
      : network_(n), changed_(n.threads().make_condition()), idle_(n.threads().make_condition()) {}

  void lock() {
    std::unique_lock guard(lock_);
    if (taken_) {
      ++wanting_;
      network_.interrupt();
      changed_->wait(guard, [this] { return !taken_; });
      --wanting_;
    }
    taken_ = true;
  }
  [[nodiscard]] bool try_lock() {
    std::lock_guard const guard(lock_);
    if (taken_ || wanting_ != 0) return false;
    return taken_ = true;
  }
  void unlock() {
    condition* next = nullptr;
    {
      std::lock_guard const guard(lock_);
      taken_ = false;
      next = who_is_next();
    }
    if (next != nullptr) next->notify_all();
  }

  /// Returns when `done()` holds, or at the deadline; whoever makes it hold has the turn, or calls
  /// `wake`. `done` is called by this thread only, but not in its turn: it looks at atomics.
  template <class Done>
  void wait(Done done, clock::time_point deadline = clock::time_point::max()) {
    std::unique_lock guard(lock_);
    if (done()) return;
    among_waiting const here(*this);
    if (attended_) network_.interrupt();
    go_on_waiting(guard, done, deadline);
  }
  /// The same, once `first()` has been done in one's turn: of which it takes one for both where nobody else wants it.
  template <class First, class Done>
  void wait_after(First first, Done done) {
    std::unique_lock guard(lock_);
    if (taken_ || wanting_ != 0 || sleeping_ != 0) {
      guard.unlock();
      {
        std::lock_guard const mine(*this);
        first();
      }
      return wait(done);
    }
    among_waiting const here(*this);
    take_turn(guard, done, clock::time_point::max(), first);
    go_on_waiting(guard, done, clock::time_point::max());
  }

  /// For a thread in the background: runs the network while nobody waits, until `stop()` holds and `wake`
  /// is called. Whoever comes to wait takes over, so that its answer finds it awake.
  template <class Stop>
  void attend(Stop stop) {
    std::unique_lock guard(lock_);
    while (!stop()) {
      if (taken_ || wanting_ != 0 || waiting_ != 0) {
        ++resting_;
        idle_->wait(guard);
        --resting_;
        continue;
      }
      attended_ = true;
      take_turn(guard, [&] { return stop() || waiting_.load(std::memory_order_relaxed) != 0; },
                clock::time_point::max());
    }
  }

  /// Of a thread that computes between its waits only for moments: while it lives, nobody in the background is woken.
  /// Who has the turn there already keeps it until somebody asks or waits.
  class staying {
   public:
    explicit staying(network_turn& t) noexcept : turn_(t) { ++turn_.waiting_; }
    staying(staying const&) = delete;
    staying& operator=(staying const&) = delete;
    ~staying() {
      std::lock_guard const guard(turn_.lock_);
      --turn_.waiting_;
      turn_.pass_on();
    }

   private:
    network_turn& turn_;
  };

  /// Makes all who wait look again. Any thread, in its turn or not.
  void wake() {
    { std::lock_guard const guard(lock_); }
    stirred_.store(true, std::memory_order_relaxed);
    changed_->notify_all();
    idle_->notify_all();
    network_.interrupt();
  }
  /// In one's turn: something has happened that another thread may wait for.
  void stir() noexcept { stirred_.store(true, std::memory_order_relaxed); }

 private:
  struct among_waiting {
    network_turn& t;
    explicit among_waiting(network_turn& all) : t(all) { ++t.waiting_; }
    ~among_waiting() {
      --t.waiting_;
      t.pass_on();
    }
  };
  /// Has the turn, without the lock, and gives it back, with it.
  struct in_turn {
    network_turn& t;
    std::unique_lock<std::mutex>& guard;
    in_turn(network_turn& all, std::unique_lock<std::mutex>& held) : t(all), guard(held) {
      t.taken_ = true;
      guard.unlock();
    }
    in_turn(in_turn const&) = delete;
    in_turn& operator=(in_turn const&) = delete;
    ~in_turn() {
      guard.lock();
      t.taken_ = t.attended_ = false;
      t.pass_on();
    }
  };
  struct nothing {
    void operator()() const noexcept {}
  };

  /// Whom it concerns that nobody has the turn; null for nobody. Threads in the background are not woken each time that
  /// somebody gives it back who waits again in a moment.
  [[nodiscard]] condition* who_is_next() const noexcept {
    if (taken_) return nullptr;
    if (wanting_ != 0 || sleeping_ != 0) return changed_.get();
    return waiting_ == 0 && resting_ != 0 ? idle_.get() : nullptr;
  }
  void pass_on() noexcept {
    if (condition* const next = who_is_next()) next->notify_all();
  }
  /// Who has no deadline need not know the time.
  [[nodiscard]] bool is_before(clock::time_point deadline) const {
    return deadline == clock::time_point::max() || network_.now() < deadline;
  }
  void sleep(std::unique_lock<std::mutex>& guard, clock::time_point deadline) {
    ++sleeping_;
    if (deadline == clock::time_point::max()) changed_->wait(guard);
    else changed_->wait_until(guard, deadline);
    --sleeping_;
  }

  template <class Done>
  void go_on_waiting(std::unique_lock<std::mutex>& guard, Done const& done, clock::time_point deadline) {
    while (!done() && is_before(deadline)) {
      if (taken_ || wanting_ != 0) sleep(guard, deadline);
      else take_turn(guard, done, deadline);
    }
  }

  /// Runs the network until this thread is done, or another one wants the turn, or may be done.
  template <class Done, class First = nothing>
  void take_turn(std::unique_lock<std::mutex>& guard, Done const& done, clock::time_point deadline,
                 First const& first = {}) {
    in_turn const mine(*this, guard);
    first();
    while (!done()) {
      network_.run_one(deadline);
      if (stirred_.exchange(false, std::memory_order_relaxed) || wanting_.load(std::memory_order_relaxed) != 0 ||
          !is_before(deadline))
        break;
    }
  }

  net::network& network_;
  std::mutex lock_;
  std::unique_ptr<condition> changed_;  ///< for those who want the turn, or wait
  std::unique_ptr<condition> idle_;     ///< for those in the background
  bool taken_ = false;
  bool attended_ = false;  ///< taken by a thread in the background
  std::atomic<int> wanting_ = 0;
  std::atomic<int> waiting_ = 0;  ///< threads in `wait`, or who stay
  int sleeping_ = 0;              ///< of those in `wait`, who sleep while another one has the turn
  int resting_ = 0;               ///< threads in `attend` while others have it
  std::atomic<bool> stirred_ = false;
};

}  // namespace rubato::detail
