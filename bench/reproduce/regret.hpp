// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/reproduce/convex_problem.hpp"
#include "rubato/protocol/rules.hpp"

namespace rubato::bench {

/// What the regret bounds of 001 (Theorem 1) and 000 (Theorems 1 and 2) are made of.
struct regret_bound {
  double diameter = 1;   ///< F: ½|x − x'|² ≤ F² for all points that are visited, and the optimum
  double lipschitz = 1;  ///< L, of each component
  std::int64_t staleness = 0;
  std::uint32_t workers = 1;

  /// The factor of Theorem 1 of 001; in 000 it is M + 3 for ConSGD and μ + 3 for DynSGD.
  static constexpr double of_ssp = 4;

  /// (s + 1)P: how many updates may be made before one is seen.
  [[nodiscard]] double delay() const noexcept;
  /// η_t = σ/√t with σ = F/(L √(2(s+1)P)); t counts from 1.
  [[nodiscard]] double step_size(double t) const noexcept;
  /// factor · F L √(2(s+1)P/T), of the mean regret of T updates.
  [[nodiscard]] double at(double updates, double factor = of_ssp) const noexcept;
  /// The T from which on the proof leads to the factor 4. Its sums come to F L √(2κ/T) (3 + 1/(2κ) + κ/√T) with
  /// κ = (s+1)P (000, appendix A, with the 2s(P − 1) of 001's Lemma 1), which is no more than that from (2κ²/(2κ −
  /// 1))² on.
  [[nodiscard]] double proven_from() const noexcept;
};

/// What an update counts in the reference sequence of the theorems.
enum class update_weight : std::uint8_t {
  one,         ///< SSP and ASP
  by_workers,  ///< 1/M: ConSGD
  by_version,  ///< one over the number of updates that share its version: DynSGD
};

/// Where the mean of the first `updates` components is least: what the regret of so many updates is measured from.
struct optimum {
  std::int64_t updates = 0;
  minimum best;
};

/// A run whose regret is measured. Each worker makes one update in each clock, with one component.
///
/// The order in which 001 counts updates is not that in which they are made: the update of worker p at clock c (both
/// from 0) is number t = cP + p + 1, also where others are far ahead. It goes down the gradient of row t of the
/// problem, each of which is used once, with the step size η_t.
struct regret_setting {
  convex_problem const& problem;
  std::span<optimum const> optima;  ///< where the regret is looked at, ascending; the last ends the run
  regret_bound bound;               ///< it says the number of workers and the step size
  double heterogeneity = 2;         ///< what a fifth of the workers takes as long as the others
  std::uint64_t seed = 1;           ///< of the times that steps and messages take
};

/// How the views x̃_t that workers read differ from the sequence x_t, which sums the updates by clock and within a
/// clock by worker: by updates that are missing (A_t) and extra ones (B_t). Source: 001 Lemma 1.
struct view_errors {
  double mean = 0;                  ///< of |A_t| + |B_t|
  std::int64_t most = 0;            ///< of the same
  std::int64_t oldest_missing = 0;  ///< clocks below the reader's: at most s
  std::int64_t newest_extra = 0;    ///< clocks above the reader's: at most s − 1
  double mean_lag = 0;              ///< clocks that the view lacks of the worker it knows least of
  std::int64_t most_lag = 0;        ///< the same
};

/// What a run came to.
struct regret_run {
  std::vector<double> regrets;  ///< by optimum: R[X], the mean of f_t(x̃_t) − f_t(x*) up to there
  double region = 0;            ///< ½|x − x'|² over all x̃_t, x_t, x* and the start is at most this
  view_errors views;            ///< counted in what was read; of sums only
  double mean_staleness = 0;    ///< clocks by which the copies were behind, as `worker_metrics` has it
  std::int64_t most_staleness = 0;  ///< the same; 64 stands for all beyond
  double mean_sharing = 1;      ///< μ of 000 Theorem 2: how many updates share an update's version, itself included
  double mean_share = 1;        ///< of 1 over that number
  double unexplained = 0;       ///< greatest difference between the parameters and the weighted sum of all updates
};

/// Runs a protocol on `bound.workers` workers and one server in virtual time. `weight` says what the protocol's merge
/// counts an update; under `by_version` the merge is replaced by `revise`, observed. The same seed, the same figures.
/// @throws option_error unless the optima ascend and the last one is of as many updates as the workers make in whole
/// clocks, and as the problem has rows for
[[nodiscard]] regret_run measure_regret(regret_setting const& s, rules protocol, update_weight weight);

}  // namespace rubato::bench
