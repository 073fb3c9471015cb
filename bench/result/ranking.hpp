// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/result/run_result.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {

/// Whether it is the better result: by the time to the target; one that did not reach it comes after one that
/// did, and of two such the one with the lower final objective is ahead.
[[nodiscard]] bool beats(run_result const& a, run_result const& b);

/// The results, best first: by the time to the target; those that did not reach it come after those
/// that did, by their final objective.
[[nodiscard]] std::vector<run_result> ranked(std::vector<run_result> results);

/// One row per result: time, updates and time per update (to the target where it was reached), the
/// time as a ratio to the first row's, where the workers' time went, and how good the model is; beside the protocol its
/// family, where there are several.
[[nodiscard]] text_table comparison_table(std::span<run_result const> best_first);

/// Where the time of each worker went in the whole of a run, a row for each.
[[nodiscard]] text_table profile_table(run_result const& r);

/// Which protocol wins and why, in a few sentences drawn from the numbers: the time to the target
/// is the number of updates (statistical efficiency) times the time for each (hardware efficiency).
[[nodiscard]] std::string explain(std::span<run_result const> best_first);

}  // namespace rubato::bench
