// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <vector>

#include "bench/compare/progress_bar.hpp"
#include "bench/compare/tune.hpp"
#include "bench/result/run_result.hpp"
#include "bench/setup/settings.hpp"

namespace rubato::bench {

/// Runs one protocol, after tuning its rate where that is asked for.
[[nodiscard]] run_result run_tuned(protocol_choice const& protocol, training job,
                                   std::optional<double> learning_rate, tune_options const& tuning,
                                   progress_bar& progress);

/// Runs every protocol of the settings on what their job refers to. Results are in the order of the protocols.
[[nodiscard]] std::vector<run_result> compare(compare_settings const& settings);

/// How many commits each worker makes at most, of a protocol that makes the job's steps between them.
[[nodiscard]] std::int64_t commits_of(training const& job);

/// Fills in the target that was asked for: 98% of the way that one worker gets, see `find_reach`.
void set_target(compare_settings& settings);

}  // namespace rubato::bench
