// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>

#include "rubato/core/time.hpp"
#include "rubato/run/first_failure.hpp"

namespace rubato {

/// One who takes part in a run: a worker or a peer.
class participant {
 public:
  virtual ~participant() = default;
  /// Starts, runs the body, and finishes. Throws what the body does; `run_stopped` when the run ends
  /// before it.
  virtual void live() = 0;
  /// The handle is of no use any more. Whatever has become of the body.
  virtual void end() = 0;
  /// Tells those whom it concerns that this one has ended by itself.
  virtual void leave() = 0;
};

/// How those who take part in a run, in this process, live and end, and what becomes of the run when
/// one of them fails: one piece of code for workers and peers, threads and fibers. A transport says how
/// waiting participants are woken, and what the time is.
///
///     begin ── for each participant: enter, live (on a thread or fiber of its own) ── end
///
/// Thread safety: any thread, but for `begin` and `end`.
class life {
 public:
  explicit life(char const* what) : what_(what) {}
  virtual ~life() = default;
  life(life const&) = delete;
  life& operator=(life const&) = delete;

  /// @throws usage_error when a run is under way already
  void begin();
  /// The run is over. Throws what ended it before its time.
  void end();
  /// One more takes part; returns false when the run has ended meanwhile.
  bool enter_if_running();
  void enter();
  /// The whole of a participant's life, on its own thread or fiber. A body that throws ends the run.
  void live(participant& p) noexcept;
  /// One that has entered will not live.
  void cancel();
  /// Returns when all who have entered have lived.
  void await_all();

  // Where one of those who live sleeps until another one of them wakes it, they say so, and a deadlock is noticed.
  /// Returns true where nobody is awake any more: then `fail_of_deadlock` is to be called, with nothing locked that
  /// `who_waits` and `wake_all` lock.
  [[nodiscard]] bool falls_asleep() noexcept { return awake_.fetch_sub(1) == 1; }
  /// Called by who wakes it.
  void is_woken() noexcept { ++awake_; }
  /// All who live wait for each other. Ends the run with an error that says who waits for what.
  void fail_of_deadlock() noexcept;
  void fail_of_deadlock(std::string const& who_waits) noexcept;

  /// Ends the run for everybody: every participant's next call unwinds its body.
  void stop() noexcept;
  /// The same, because somebody wants it: noted, unless all who take part have ended by themselves.
  void stop_as_asked() noexcept;
  /// The same, because of this.
  void fail(std::exception_ptr why) noexcept;

  [[nodiscard]] bool is_running() const noexcept { return busy_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool stopping() const noexcept { return stopping_; }
  [[nodiscard]] bool has_failed() const;
  /// Whether `stop_as_asked` has ended the run.
  [[nodiscard]] bool was_stopped() const;
  /// When the last of them has ended, or what `note_end` said.
  [[nodiscard]] time_point ended() const;
  void note_end(time_point t);

 protected:
  [[nodiscard]] virtual time_point time() const = 0;
  /// The run is being stopped: who waits is to look.
  virtual void wake_all() noexcept = 0;
  /// As `stop`, for whoever sees to it that all who wait look.
  void note_stop() noexcept { stopping_ = true; }
  /// For what, and because of whom: of everybody, each after a semicolon.
  [[nodiscard]] virtual std::string who_waits() const { return {}; }
  /// The run is failing, for this reason: others may have to be told.
  virtual void tell_failure(std::exception_ptr const&) noexcept {}

 private:
  char const* what_;
  std::atomic<bool> busy_ = false;
  // In one order with what others note of a run's beginning: who begins sees that it is stopped, or who stops that it
  // has begun, and one of them says so.
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint32_t> awake_ = 0;  ///< of those who live; a transport that does not tell who sleeps has all
  mutable std::mutex lock_;  ///< what follows
  std::condition_variable changed_;
  std::uint32_t living_ = 0;
  std::uint32_t leaving_ = 0;  ///< of these, those about to end
  bool entered_ = false;       ///< somebody has
  bool was_stopped_ = false;
  time_point ended_{};
  detail::first_failure failure_;
};

}  // namespace rubato
