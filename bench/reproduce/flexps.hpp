// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/registry.hpp"
#include "rubato/algorithm/sgd.hpp"
#include "rubato/algorithm/svrg.hpp"
#include "rubato/data/dataset.hpp"
#include "rubato/task/task_report.hpp"
#include "rubato/transport/simulated.hpp"

/// What the experiments of "FlexPS: Flexible Parallelism Control in Parameter Server Architecture" (PVLDB
/// 11(5), 2018) share.
namespace rubato::bench::pvldb18 {

/// One stored value here stands for so many of the paper's: there are as many fewer features and bytes, each
/// of them takes as much longer to compute with and to send, and what a message takes whatever is in it
/// stays. So one iteration computes, sends and waits for as long as it would at full size.
constexpr double values_in_one = 100;

constexpr std::uint32_t machines = 20;
constexpr std::uint32_t cores = 12;  ///< of a machine
constexpr std::uint32_t most_workers = machines * cores;

/// 004's machines, each with a server and up to 12 workers, which are threads of one process.
[[nodiscard]] simulated machines_of_the_paper();
/// The same with so many workers, all on the first machine.
[[nodiscard]] simulated workers_on_one_machine(std::uint32_t workers);

/// One of Table 1's sets, and how ours differs from it.
struct shape {
  std::string_view name;
  double samples;  ///< of the paper's
  double features;
  double values;          ///< stored in a sample
  double samples_in_one;  ///< of the paper's, that a sample here stands for
  double share = 1;       ///< of the samples that are made: those that a figure comes to see

  /// Rows here for so many of the paper's samples; at least 1.
  [[nodiscard]] std::size_t rows_for(double samples) const;
  [[nodiscard]] data::dataset make(std::uint64_t seed) const;
  [[nodiscard]] std::string description() const;
};
[[nodiscard]] shape webspam();
[[nodiscard]] shape kdd();

enum class learner { logistic, svm };

/// Seconds of a task, or of a stage: elapsed, and those of all its workers together.
struct cost {
  double seconds = 0;
  double worker_seconds = 0;
  cost& operator+=(cost const& o) noexcept;
  friend cost operator*(double n, cost c) noexcept { return {n * c.seconds, n * c.worker_seconds}; }
};

/// Trains on a set in the simulated cluster.
class experiment {
 public:
  experiment(shape const& s, reproduce_options const& options, simulated where = machines_of_the_paper())
      : shape_(s), rows_(s.make(options.seed)), where_(std::move(where)) {}

  [[nodiscard]] shape const& of() const noexcept { return shape_; }
  [[nodiscard]] data::dataset const& rows() const noexcept { return rows_; }

  [[nodiscard]] task_report sgd(learner what, std::vector<algorithm::sgd_phase> const& phases) const;
  /// Logistic regression. Stage 0 is the full gradient, 1 the small steps.
  [[nodiscard]] task_report svrg(algorithm::svrg_options const& options) const;
  /// Its small steps alone, in so many epochs and at any point: stage 0.
  [[nodiscard]] task_report small_steps(algorithm::svrg_options const& options) const;

 private:
  shape shape_;
  data::dataset rows_;
  simulated where_;
};

/// Chunks as large as by default, of stored values that stand for more.
[[nodiscard]] single_machine scaled_down(preparation prepare);

/// A stage of so many workers, over all machines there are (004 §7.4).
[[nodiscard]] stage_options with_workers(std::uint32_t workers, rules const& protocol = bsp{});
/// One whose degree is searched for.
[[nodiscard]] stage_options with_search(search_options const& search);
/// The same in single-machine mode (004 §5.3).
[[nodiscard]] stage_options on_one_machine(degree workers, preparation prepare,
                                           search_options const& search = {});

/// What a stage took in all its runs together, had they had so many iterations: what came after the search
/// goes on at the same pace. @pre the stage has run for longer than its search
[[nodiscard]] cost cost_of(task_report const& r, std::size_t stage, double iterations);
/// What it took in all its runs together.
[[nodiscard]] cost cost_of(task_report const& r, std::size_t stage);
/// What it would have taken with so many iterations, from two tasks in which it has run equally often, but
/// for longer in one: what is done once in a run, as fetching the model, counts once.
/// @pre searches have ended in both
[[nodiscard]] cost cost_of(task_report const& shorter, task_report const& longer, std::size_t stage,
                           double iterations);
/// The degree at which it went on.
[[nodiscard]] std::uint32_t degree_of(task_report const& r, std::size_t stage);

/// What something takes by degree, each measured once.
class by_degree {
 public:
  explicit by_degree(std::function<cost(std::uint32_t)> measure) : measure_(std::move(measure)) {}

  [[nodiscard]] cost at(std::uint32_t workers) const;
  /// The multiple of `step` at which it takes the least time, of those up to all workers. As the time has one
  /// minimum (004 §5.4) not all are tried: only those that a search by thirds comes to.
  [[nodiscard]] std::uint32_t best(std::uint32_t step) const;
  /// The same of all multiples up to a limit, trying each.
  [[nodiscard]] std::uint32_t best_of_all(std::uint32_t step, std::uint32_t limit = most_workers) const;

 private:
  std::function<cost(std::uint32_t)> measure_;
  mutable std::map<std::uint32_t, cost> known_;
};

/// Says which figure this is, and what stands for the paper's cluster.
void introduce(std::string_view figure);

}  // namespace rubato::bench::pvldb18
