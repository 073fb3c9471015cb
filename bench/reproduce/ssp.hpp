// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/application/application.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/result/run_result.hpp"
#include "bench/train/load_data.hpp"
#include "bench/train/training.hpp"
#include "rubato/core/clock.hpp"

/// What the experiments of "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server" (NIPS
/// 2013, §5) need.
namespace rubato::bench::nips13 {

/// The paper's machines, with a process of 8 threads and a server on each, and what can be changed about them.
struct conditions {
  std::uint32_t machines = 32;
  std::uint32_t threads = 8;           ///< workers of a machine
  double core_speed = 1;               ///< of what we measured
  double bandwidth = 1;                ///< of 10 Gbit/s
  double latency = 1;                  ///< of 100 us
  double jitter = 0.05;                ///< of a step's duration, lognormal
  std::optional<double> slowdown{};    ///< one step in so many takes six times as long
  bool has_process_cache = true;

  [[nodiscard]] std::uint32_t workers() const noexcept { return machines * threads; }
};

/// What a worker does in one clock: the units that its steps are priced in, and the bytes of its questions, of the
/// answers to them and of its updates.
struct clock_size {
  double units = 0;
  double bytes = 0;
};

/// How many different ones there are among `draws` of `kinds` whose frequencies follow Zipf's law, on average.
[[nodiscard]] double distinct_of_zipf(double kinds, double draws);

/// One of the paper's problems, and ours that stands for it.
struct problem {
  std::string name;       ///< "LDA"
  std::string paper_data;
  application_options options;
  data_source from;
  double seconds_per_unit;  ///< of a core
  /// The paper's, of a worker that goes over such a share of the data in a clock.
  clock_size (*of_the_paper)(double share);
  /// What is tuned for each protocol, learning rates (mf) or dampings (lasso): the one that gets to the target the
  /// soonest, else the one that ends the lowest.
  std::vector<double> rates{0};
  bool has_asp = true;
};
[[nodiscard]] problem topic_modeling(reproduce_options const& options);
/// On synthetic ratings, as many of each user: a worker has 1900 of Netflix's users, and so about as many ratings as
/// any other.
[[nodiscard]] problem matrix_factorization(reproduce_options const& options);
/// On ML-100K, of which a worker has few users, and some workers have several times the ratings of others.
[[nodiscard]] problem uneven_factorization(reproduce_options const& options);
[[nodiscard]] problem lasso_regression(reproduce_options const& options);

/// One run. Its protocol is SSP with its staleness, that is BSP for 0 (§5), or without a bound the asynchronous model.
struct outcome {
  staleness bound;
  double rate = 0;
  run_result result;
  std::uint32_t workers = 0;

  [[nodiscard]] std::string label() const;
  /// Seconds of a worker in one clock.
  [[nodiscard]] double compute() const;
  [[nodiscard]] double transfer() const;  ///< moving updates and rows
  [[nodiscard]] double wait() const;      ///< held up by the protocol
  /// Network waiting over compute: all that is not compute.
  [[nodiscard]] double ratio() const;
  [[nodiscard]] double clocks_per_second() const;
  /// Questions to servers of those that a worker's own cache could not answer.
  [[nodiscard]] double share_from_process() const;
  /// The last objective known when each worker had made so many clocks, on average; at a time.
  [[nodiscard]] double objective_after(double clocks) const;
  [[nodiscard]] double objective_at(double seconds) const;
  [[nodiscard]] std::optional<double> seconds_to(double target) const;
};

/// Runs of one problem with one size of mini-batches.
class experiment {
 public:
  /// @throws data_error, option_error
  experiment(problem p, double batch, std::uint64_t seed);

  [[nodiscard]] problem const& of() const noexcept { return problem_; }
  [[nodiscard]] double batch() const noexcept { return batch_; }
  [[nodiscard]] std::string description() const { return applications_.front()->description(); }
  /// A run's job: what a worker computes and moves in a clock takes as long as it takes the paper's.
  [[nodiscard]] training job(conditions const& c, std::int64_t clocks) const;
  /// @param rate its place in the problem's
  [[nodiscard]] outcome run(staleness bound, std::size_t rate, training job) const;
  /// What a worker does in a clock here.
  [[nodiscard]] clock_size measured(std::uint32_t workers) const;

 private:
  [[nodiscard]] run_result pilot(std::uint32_t workers, std::int64_t sweeps) const;
  [[nodiscard]] std::int64_t clocks_of_sweep() const;

  problem problem_;
  double batch_;
  std::uint64_t seed_;
  std::vector<std::unique_ptr<application const>> applications_;  ///< one, or one for each damping
};

/// Convergence under one set of conditions: a run for each staleness, the best of those with different rates. BSP makes
/// a number of clocks, the others as many as they can in the time that it takes, but `clocks_most` times as many at
/// most.
struct panel {
  std::vector<outcome> runs;  ///< ascending by staleness
  double start = 0;           ///< the objective that training begins with
  double lowest = 0;          ///< that BSP gets to

  /// The objective at which a share of BSP's way is done.
  [[nodiscard]] double at(double share) const noexcept { return start - share * (start - lowest); }
  /// Of those with a staleness above 0 and a bound, the soonest at the target; the lowest end where none got there.
  [[nodiscard]] outcome const& best_ssp() const;
  [[nodiscard]] outcome const& bsp() const { return runs.front(); }
  /// Nothing, where it was not run.
  [[nodiscard]] outcome const* asp() const;
};

/// The share of BSP's way at which a run has arrived.
constexpr double target_share = 0.95;
constexpr std::int64_t clocks_most = 4;

/// @param clocks of BSP @param stalenesses ascending from 0; the asynchronous model runs where the problem has it
[[nodiscard]] panel run_panel(experiment const& e, conditions const& c, std::int64_t clocks,
                              std::vector<std::int64_t> const& stalenesses);

}  // namespace rubato::bench::nips13
