// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <vector>

#include "rubato/core/time.hpp"
#include "rubato/metrics/implicit_momentum.hpp"
#include "rubato/metrics/shard_counters.hpp"
#include "rubato/metrics/worker_metrics.hpp"
#include "rubato/protocol/conductor.hpp"

namespace rubato {

/// Whether a run did what it was to do.
enum class completion : std::uint8_t {
  whole,  ///< no node was lost before its workers had ended
  cut_off,    ///< a node was lost before its workers had ended
  /// Nobody has begun it: a node that was to have workers is not there any more, `stop` came first, or it was over
  /// before this process came.
  not_begun,
};

/// What a run measured, over all workers that took part in it.
struct run_report {
  bool virtual_time = false;  ///< whether times are those of a simulation
  duration elapsed{};                    ///< from the start to the last worker's end
  std::uint64_t updates = 0;             ///< commits that servers received, each counted once
  std::vector<worker_metrics> workers;   ///< by worker number
  shard_counters servers;                ///< summed over the servers
  std::size_t versions_peak = 0;         ///< most versions alive at one time on one server
  std::uint64_t crashes = 0;             ///< workers lost
  /// Nodes that are not there any more when it ends, ascending: processes, or machines of the simulator.
  std::vector<std::uint32_t> lost_nodes;
  completion completed = completion::whole;  ///< whether the run did what it was to do
  /// Somebody has called `stop` before all of its workers had ended, or before it began. Processes are told alike.
  bool stopped = false;
  std::uint64_t events = 0;              ///< simulator only: events processed
  std::vector<pace_change> pace_changes; ///< what the pace's conductor decided, oldest first

  /// What the workers measured, added up.
  [[nodiscard]] worker_metrics total() const {
    worker_metrics sum;
    for (auto const& w : workers) sum += w;
    return sum;
  }

  /// What the local steps between commits, of the workers that committed, amount to as momentum in a
  /// protocol without a barrier; joiners count as if they had been there all the time.
  /// Source: 003 Eq. 3.
  [[nodiscard]] double implicit_momentum() const {
    std::vector<double> local_steps;
    for (auto const& w : workers)
      if (w.commits != 0)
        local_steps.push_back(static_cast<double>(w.steps) / static_cast<double>(w.commits));
    return rubato::implicit_momentum(local_steps);
  }
};

}  // namespace rubato
