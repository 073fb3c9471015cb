// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

namespace rubato {

/// Where threads of a process wait for one another: what std::condition_variable is, and by default is that.
/// Thread safety, guarantees and spurious returns are those of std::condition_variable.
class condition {
 public:
  /// Of `wait_until`.
  using clock = std::chrono::steady_clock;

  virtual ~condition() = default;
  /// Opens the guard while it waits.
  virtual void wait(std::unique_lock<std::mutex>& guard) = 0;
  /// The same, at most until then.
  virtual void wait_until(std::unique_lock<std::mutex>& guard, clock::time_point deadline) = 0;
  /// The same, for so long at most.
  virtual void wait_for(std::unique_lock<std::mutex>& guard, clock::duration time) = 0;
  /// Wakes one of those who wait.
  virtual void notify_one() noexcept = 0;
  /// Wakes all of them.
  virtual void notify_all() noexcept = 0;

  /// Returns when `done()` holds.
  template <class Done>
  void wait(std::unique_lock<std::mutex>& guard, Done done) {
    while (!done()) wait(guard);
  }
};

/// A thread that has been started; joined before it goes.
class running_thread {
 public:
  virtual ~running_thread() = default;
  /// Returns when it has ended. Once.
  virtual void join() = 0;
};

/// How a process makes threads, and lets them wait for one another. They are handed in, as time and randomness are,
/// so that a process may live as fibers of one thread; see `net::network::threads`.
/// Thread safety: any thread.
class thread_source {
 public:
  virtual ~thread_source() = default;
  /// Where threads that come from here can wait.
  [[nodiscard]] virtual std::unique_ptr<condition> make_condition() = 0;
  /// Runs `body` on a thread of its own. What it throws ends the program.
  /// @throws std::system_error where there is no thread to be had
  [[nodiscard]] virtual std::unique_ptr<running_thread> start(std::function<void()> body) = 0;
};

/// The threads of the system; never destroyed.
[[nodiscard]] thread_source& system_threads() noexcept;

}  // namespace rubato
