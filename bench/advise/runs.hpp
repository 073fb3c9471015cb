// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "bench/advise/candidate.hpp"

namespace rubato::bench {

/// A run that is to be made.
struct run_order {
  arm what;
  std::size_t seed = 0;
  double deadline = std::numeric_limits<double>::infinity();  ///< in seconds of the run
};

/// Makes the runs, each up to the target or its deadline, `lanes` of them side by side. The results are in the
/// order of the runs and, as no run knows of another one, do not depend on the number of lanes. Parameters are
/// not kept. @throws what a run throws
[[nodiscard]] std::vector<run_result> run_all(std::span<candidate const> candidates,
                                              std::span<run_order const> orders, std::size_t lanes);

/// As many as there are processors.
[[nodiscard]] std::size_t usual_lanes();

/// What all the runs cost, in local steps of all their workers: what computing them takes, and unlike time the
/// same on every machine.
[[nodiscard]] std::uint64_t cost_of(std::span<run_result const> results);

/// What the run would have cost if it had ended at `deadline`: the local steps of its last point up to there.
[[nodiscard]] std::uint64_t cost_until(run_result const& r, double deadline);

/// The objective at the last look up to `deadline`, infinite where it is no number.
[[nodiscard]] double loss_at(run_result const& r, double deadline);

/// Whether the run made all its steps, or diverged, without the target: with more time it would not get there.
[[nodiscard]] bool ended_above_target(run_result const& r, double deadline);

/// Infinite where the target was not reached.
[[nodiscard]] double time_to_target(run_result const& r);

/// The middle of the numbers, the mean of the two in the middle where their count is even; infinite for none.
[[nodiscard]] double median(std::vector<double> numbers);

/// The learning rates that are tried: powers of 2 from 1/256 to 128.
[[nodiscard]] std::vector<double> rate_grid();

}  // namespace rubato::bench
