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
  virtual void wait(std::unique_lock<std::mutex>& guard) = 0;
  virtual void wait_until(std::unique_lock<std::mutex>& guard, clock::time_point deadline) = 0;
  virtual void wait_for(std::unique_lock<std::mutex>& guard, clock::duration time) = 0;
  virtual void notify_one() noexcept = 0;
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
  [[nodiscard]] virtual std::unique_ptr<condition> make_condition() = 0;
  /// @throws std::system_error where there is no thread to be had
  [[nodiscard]] virtual std::unique_ptr<running_thread> start(std::function<void()> body) = 0;
};

/// The threads of the system; never destroyed.
[[nodiscard]] thread_source& system_threads() noexcept;

}  // namespace rubato
