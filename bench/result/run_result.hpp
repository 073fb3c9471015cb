// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/result/curve.hpp"

namespace rubato::bench {

/// A learning rate that was tried, and what came of it.
struct tuning_trial {
  double learning_rate = 0;
  std::optional<double> seconds_to_target{};  ///< empty also where the trial was given up as slower
  double final_loss = 0;
};

/// What the conductor of a pace decided: commits per check period (ADSP) or local steps per commit
/// (ADACOMM).
struct pace_decision {
  double seconds = 0;
  std::int64_t value = 0;
  std::string reason{};
};

/// What one worker did in the whole of a run.
struct worker_share {
  time_split spent{};
  std::uint64_t steps = 0;    ///< local ones, or a peer's iterations
  std::uint64_t commits = 0;  ///< updates sent
};

/// What one run was and what it measured: the fields of the JSON output, in its order.
struct run_result {
  std::vector<float> parameters{};  ///< at the end; not in the JSON
  std::string label{};  ///< "ssp(3)": the protocol as tables and plots name it; not in the JSON
  std::string family{};  ///< "rounds": protocols that are like it; not in the JSON

  std::string protocol{};
  std::string transport{};
  std::string storage{};
  std::string workload{};
  std::uint32_t workers = 0;
  std::uint32_t servers = 0;
  std::optional<std::int64_t> staleness{};  ///< empty: unbounded
  double heterogeneity = 1;
  double learning_rate = 0;
  std::uint64_t seed = 0;
  std::string time_kind{};  ///< "virtual" or "wall"
  std::optional<double> target{};
  std::optional<double> seconds_to_target{};
  std::optional<std::uint64_t> updates_to_target{};
  std::optional<std::uint64_t> clocks_to_target{};  ///< updates over workers, rounded up
  double seconds = 0;
  std::uint64_t updates = 0;
  double seconds_per_update = 0;
  double compute_seconds = 0;  ///< summed over the workers, like the next two
  double wait_seconds = 0;
  double send_seconds = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  double final_loss = 0;
  double min_obj = 0;
  double var_obj = 0;
  std::vector<curve_point> curve{};

  // Beyond what the design fixes.
  std::uint32_t round = 1;     ///< of the rounds of a comparison
  double accuracy = 0;         ///< on held-out data; not a number where there is none
  time_split counted_split{};  ///< where time went up to the target, like the three below
  std::vector<std::uint64_t> staleness_histogram{};
  std::size_t versions_peak = 0;       ///< most versions alive on one server; 0 where none are kept
  std::vector<double> read_losses{};   ///< of worker 0, clock by clock, where they are watched
  std::vector<tuning_trial> trials{};  ///< empty where the rate was given
  std::uint64_t steps = 0;             ///< local steps of all workers
  std::optional<std::uint64_t> steps_to_target{};
  std::uint64_t requests = 0;      ///< questions to servers; not in the JSON, like the next one
  std::uint64_t process_hits = 0;  ///< questions that the worker's process had the answer to (001 §3)
  std::uint64_t jumped_over = 0;  ///< iterations that peers have left out
  double implicit_momentum = 0;            ///< what local steps between commits amount to (003 Eq. 3)
  std::vector<worker_share> profile{};        ///< by worker number
  std::vector<pace_decision> pace_changes{};  ///< of the pace's conductor, where there is one

  /// Up to the target where it was reached, else of the whole run. Statistical efficiency is the
  /// number of updates, hardware efficiency the time for each; their product is the time.
  [[nodiscard]] double counted_seconds() const { return seconds_to_target.value_or(seconds); }
  [[nodiscard]] std::uint64_t counted_updates() const {
    return updates_to_target.value_or(updates);
  }
  [[nodiscard]] std::uint64_t counted_steps() const { return steps_to_target.value_or(steps); }
  [[nodiscard]] double counted_seconds_per_update() const {
    return counted_updates() == 0 ? 0 : counted_seconds() / static_cast<double>(counted_updates());
  }
  /// What an iteration takes a peer, on average, one that it jumps over included.
  [[nodiscard]] double seconds_per_iteration() const {
    auto const all = static_cast<double>(updates + jumped_over);
    return all == 0 ? 0 : (compute_seconds + send_seconds + wait_seconds) / all;
  }
};

}  // namespace rubato::bench
