// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "rubato/run/peer_runtime.hpp"
#include "rubato/run/runtime.hpp"
#include "rubato/sim/scenario.hpp"
#include "rubato/transport/task_mode.hpp"

namespace rubato {

/// A runtime in virtual time, which can be looked at from outside.
class simulated_runtime : public runtime {
 public:
  /// Calls `observer` after every event of a run: for checking invariants.
  virtual void on_event(std::function<void()> observer) = 0;
};

/// The same for peers.
class simulated_peer_runtime : public peer_runtime {
 public:
  /// Calls `observer` after every event of a run.
  virtual void on_event(std::function<void()> observer) = 0;
};

/// Workers are fibers of one thread in virtual time. The training body really computes; how long
/// that took, and what the network did, the scenario says. Same seed, same run, event by event.
/// A run throws deadlock_error when somebody waits and nothing can happen any more.
///
/// One message between worker and server is one event; so is the end of a local step. O(log events)
/// each, besides what shards and body do.
struct simulated {
  std::uint32_t workers = 1;  ///< fibers that run the body
  std::uint32_t servers = 1;  ///< over which tables are spread
  sim::scenario scenario = {};  ///< how fast machines and links are, who joins and who crashes
  std::size_t stack_bytes = 256 * 1024;  ///< of each worker's fiber

  using runtime_type = simulated_runtime;
  using peer_runtime_type = simulated_peer_runtime;
  /// @throws option_error for what cannot be meant
  [[nodiscard]] std::unique_ptr<simulated_runtime> open(run_setup setup) const;
  [[nodiscard]] std::unique_ptr<simulated_peer_runtime> open_peers(peer_setup setup) const;

  static constexpr task_mode tasks = task_mode::virtual_time;
  /// The machines of `scenario.machine_of`, by number, each with room for as many workers as it has there. How
  /// fast a worker is goes by its rank in the run, wherever it is.
  [[nodiscard]] std::vector<std::uint32_t> nodes() const;
  /// The numbers, as nodes, of those of these machines that are any, ascending.
  [[nodiscard]] std::vector<std::uint32_t> nodes_of(std::span<std::uint32_t const> machines) const;
  /// By worker, the number of its machine, where nodes have so many workers.
  /// @throws option_error when there are not so many nodes, or one has no room for so many
  [[nodiscard]] std::vector<std::uint32_t> machines_of(std::span<std::uint32_t const> placement) const;
};

}  // namespace rubato
