// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace rubato::net {

/// Waits for sockets and timers, and calls who wants to know. One thread at a time may use it and
/// the connections that live in it; only `interrupt` may be called from any thread.
class reactor {
 public:
  using clock = std::chrono::steady_clock;

  reactor();
  ~reactor();
  reactor(reactor const&) = delete;
  reactor& operator=(reactor const&) = delete;

  /// Waits for one event and handles it; returns at `deadline` at the latest, or when interrupted.
  /// What a handler throws passes through.
  void run_one(clock::time_point deadline = clock::time_point::max());
  /// Handles what has happened, without waiting.
  void poll();
  /// Makes a `run_one` that waits, or else the next one, return soon. Any thread.
  void interrupt() noexcept;
  /// Calls `f` once at this time, unless the handle that it returns is gone by then.
  [[nodiscard]] std::shared_ptr<void> at(clock::time_point when, std::function<void()> f);

  struct state;  // in src/net
  [[nodiscard]] state& impl() noexcept { return *state_; }

 private:
  std::unique_ptr<state> state_;
};

}  // namespace rubato::net
