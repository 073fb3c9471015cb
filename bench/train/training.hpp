// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "bench/train/row_order.hpp"
#include "bench/train/workload.hpp"
#include "rubato/sim/scenario.hpp"
#include "rubato/storage/codec.hpp"
#include "rubato/storage/update_filter.hpp"

namespace rubato::bench {

enum class transport_kind { simulated, in_process, tcp, mpi };

/// Whether a coordinator, servers and workers are processes.
[[nodiscard]] constexpr bool has_processes(transport_kind t) noexcept {
  return t == transport_kind::tcp || t == transport_kind::mpi;
}

/// As results have it.
[[nodiscard]] constexpr char const* name_of(transport_kind t) noexcept {
  switch (t) {
    case transport_kind::simulated:
      return "simulated";
    case transport_kind::in_process:
      return "in-process";
    case transport_kind::mpi:
      return "mpi";
    case transport_kind::tcp:
      break;
  }
  return "tcp";
}

/// When a run may end before its last clock. Only in the simulator, where looking at the objective
/// takes no time.
struct stop_rule {
  bool at_target = false;
  /// Seconds after which the result does not matter any more.
  double deadline = std::numeric_limits<double>::infinity();
};

class application;
class reassignment;
class timeline_recorder;

/// Everything that one run depends on, but the protocol.
struct training {
  // What is trained: one of these, which outlives the runs.
  workload const* work = nullptr;
  application const* app = nullptr;

  transport_kind transport = transport_kind::simulated;
  std::uint32_t workers = 30;
  std::uint32_t servers = 10;
  sim::scenario scenario{};    ///< the cluster; elsewhere only its heterogeneity counts
  double learning_rate = 0.1;  ///< σ
  double decay = 0.0;          ///< α of σ/sqrt(αp+1) after p passes over a worker's data; 0 is a fixed rate
  double momentum = 0;         ///< of a worker's own steps
  double batch = 0.1;          ///< share of a worker's shard
  bool batch_tune = false;     ///< batches in proportion to the speeds, the sum of them the same
  row_order shards{};          ///< in which order the workload's rows lie
  std::int64_t steps_per_commit = 10;
  std::int64_t clocks = 50;  ///< commits of each worker; `local_steps` where a pace is its own
  std::size_t points = 200;  ///< of the curve, about
  /// Seconds from one look at the objective to the next, instead of a number of points: for
  /// protocols that commit more or less often. Simulator only.
  std::optional<double> look_every{};
  std::optional<double> target{};
  std::int64_t clocks_at_target = 1;  ///< so long a curve stays at the target that has arrived there
  stop_rule stop{};
  bool watch_reads = false;  ///< also what worker 0 reads after each of its clocks; simulator only
  std::uint64_t seed = 1;
  timeline_recorder* watcher = nullptr;  ///< what workers do is told it; simulator only, and not of applications
  reassignment* reassigned = nullptr;    ///< whose rows mini-batches are of, where that changes; simulator only
  table_codec codec{};     ///< of the parameters on their way, where there are servers
  update_filter filter{};  ///< of commits
  std::span<float const> goes_on_from{};  ///< instead of the workload's initial parameters

  [[nodiscard]] std::span<float const> start() const noexcept {
    return goes_on_from.empty() ? work->initial() : goes_on_from;
  }
  /// What a run gives each worker to do, the slowest where fast ones do more.
  [[nodiscard]] std::int64_t local_steps() const noexcept { return clocks * steps_per_commit; }
  /// As many as make a pass over a worker's data.
  [[nodiscard]] std::int64_t steps_of_a_pass() const noexcept {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(1 / batch - 1e-9)));
  }
  /// The passes that are complete after so many local steps: what rates decay by, however often a worker commits.
  [[nodiscard]] std::int64_t passes_after(std::int64_t steps) const noexcept { return steps / steps_of_a_pass(); }
};

}  // namespace rubato::bench
