// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "rubato/core/busy_poll.hpp"
#include "rubato/run/runtime.hpp"
#include "rubato/transport/task_mode.hpp"

namespace rubato {

class peer_runtime;
struct peer_setup;

/// Workers are threads of this process and call the shards directly: no queue, no serialization;
/// parameters are copied once, from the store into the user's memory. A run throws deadlock_error where all wait for
/// each other.
struct in_process {
  std::uint32_t workers = 1;  ///< threads that run the body
  std::uint32_t servers = 1;  ///< shards, over which tables are spread
  /// How many times as long each worker takes for a step, by rank; what is missing counts 1. The
  /// worker sleeps for the difference: for trying out heterogeneity on one machine.
  std::vector<double> slowness = {};
  std::uint64_t seed = 1;  ///< of the workers' random streams
  /// What one worker has fetched others may use, and many that miss the same rows ask a server once: the process cache
  /// of 001 §3, as of threads over TCP. Not under partition synchronization. Servers are as near as the cache is here,
  /// so it is of use for what is to run in several processes, and for counting what that will ask for.
  bool process_cache = false;
  /// How long a worker or peer that waits for others looks before it sleeps; see `busy_poll`. 0: it sleeps at once, as
  /// with `process_cache` it always does.
  std::chrono::microseconds busy_poll = usual_busy_poll;

  using runtime_type = runtime;
  using peer_runtime_type = peer_runtime;
  /// @throws option_error for what cannot be meant
  [[nodiscard]] std::unique_ptr<runtime> open(run_setup setup) const;

  [[nodiscard]] std::unique_ptr<peer_runtime> open_peers(peer_setup setup) const;

  static constexpr task_mode tasks = task_mode::side_by_side;
  [[nodiscard]] std::vector<std::uint32_t> nodes() const { return {workers}; }

  /// @throws option_error
  void check() const;
};

}  // namespace rubato
