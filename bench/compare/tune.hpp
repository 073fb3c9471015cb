// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "bench/result/run_result.hpp"
#include "bench/train/training.hpp"

namespace rubato::bench {

/// The grid search for a learning rate, as the papers do it: powers of `factor` around 1, then the
/// neighbours of the best in finer steps.
struct tune_options {
  double least = 1.0 / 256;
  double greatest = 16;
  double factor = 4;    ///< of the first grid, which grows as long as its best is at an end
  int refinements = 2;  ///< each halves the steps (on the log scale) around the best
  double budget_seconds = std::numeric_limits<double>::infinity();  ///< of wall time
};

/// Runs a protocol with the given learning rate and stop rule.
using trial_runner = std::function<run_result(double learning_rate, stop_rule const&)>;

struct tuning_result {
  double learning_rate;
  std::vector<tuning_trial> trials;  ///< in ascending order of the rate
};

/// Whether trial `a` is better: it reaches the target sooner, or (where none does) ends lower.
[[nodiscard]] bool better(tuning_trial const& a, tuning_trial const& b);

/// Finds the rate with the shortest time to the target; where no rate gets there (or there is no
/// target), the one with the lowest final objective. Trials that can no longer win are cut short
/// where the transport allows it.
[[nodiscard]] tuning_result tune(tune_options const& options, trial_runner const& run);

}  // namespace rubato::bench
