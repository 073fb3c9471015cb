// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <rubato/core/ids.hpp>
#include <rubato/core/time.hpp>
#include <rubato/sim/network.hpp>
#include <rubato/sim/speed.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rubato::sim {

/// `worker` stops for good, without a word, at `at` since the start of the run. Nothing happens to one that has ended
/// by then, or has not joined yet.
struct crash {
  worker_id worker{};  ///< the worker that is lost
  duration at{0};  ///< since the start of the run
};

/// All workers of a machine stop for good, as in `crash`, and no stage of a task runs there any more. Servers on it
/// are processes of their own, and go on.
struct machine_loss {
  std::uint32_t machine = 0;  ///< its number, as in `scenario::machine_of`
  duration at{0};  ///< since the task's engine began; where there is none, since the start of the run
};

/// One more worker joins at `at` since the start of the run. The first to join gets the rank after
/// that of the last initial worker, and so on, in order of time, then of the list.
struct join {
  duration at{0};  ///< since the start of the run
};

/// A simulated cluster: who is how fast, what lies between them, what goes wrong.
///
/// The default is homogeneous: 1 us per unit of work, 100 us latency, infinite bandwidth, no
/// faults.
///
/// @code
/// sim::scenario{.speed = {.work_cost = 20us, .heterogeneity = {.level = 2}},
///               .network = {.worker_link = {.latency = 500us, .jitter = sim::lognormal{.sigma =
///               0.4}},
///                           .server_bandwidth = 125'000'000},
///               .crashes = {{.worker = worker_id(3), .at = 2s}},
///               .seed = 7}
/// @endcode
struct scenario {
  speed_options speed{};  ///< how long a step takes
  network_options network{};  ///< how long a message takes
  std::vector<crash> crashes{};  ///< of workers, or peers
  std::vector<machine_loss> machine_losses{};  ///< not for peers
  std::vector<join> joins{};  ///< workers that come later; not for peers
  /// What every message between a worker and a server takes longer, each way, by the server's
  /// number; none where the list ends. >= 0. Makes a delayed partition.
  std::vector<duration> server_delay{};
  /// By worker, the number of its machine; a machine of its own for each worker where the list
  /// ends, so also for all when it is empty. Numbers are names: any below 2^20, with gaps or
  /// without. Workers of one machine share its network card, of `network.worker_link`, and talk to
  /// each other over `network.local_link`. `blocks(16, 4)` puts 16 workers on 4 machines.
  std::vector<std::uint32_t> machine_of{};
  /// Whether the workers of one machine are threads of one process, which die together: their messages go over
  /// the same connections, and they share what they fetch, as workers of one process do over TCP (001 §3). What
  /// one finds there it has at once. Not for peers.
  bool one_process_per_machine = false;
  /// By server, the number of its machine, one of those above or another one; a machine to itself where the
  /// list ends, with a card of `network.server_bandwidth`. All who live on a machine that is listed share its network
  /// card, of `network.worker_link` also where no worker lives there, or none does in this run, and talk to each other
  /// over `network.local_link`.
  std::vector<std::uint32_t> server_machine_of{};
  /// From a crash until the servers take it for a leave; >= 0.
  duration detection_delay = std::chrono::milliseconds(100);
  /// Decides every draw of the run: same seed, same run.
  std::uint64_t seed = 1;

  /// Checks everything, before anything starts.
  /// @param workers at the start; @param servers
  /// @throws option_error: one sentence that names the first bad option and says what was expected
  void validate(std::size_t workers, std::size_t servers) const;
};

}  // namespace rubato::sim
