// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <vector>

#include "bench/compare/progress_bar.hpp"
#include "bench/compare/subject.hpp"
#include "bench/compare/tune.hpp"
#include "bench/result/repeated.hpp"
#include "bench/result/run_result.hpp"
#include "bench/setup/settings.hpp"

namespace rubato::bench {

/// Runs one protocol, after tuning its rate where that is asked for.
[[nodiscard]] run_result run_tuned(protocol_choice const& protocol, training job,
                                   std::optional<double> learning_rate, tune_options const& tuning,
                                   progress_bar& progress);

/// Runs every protocol of the settings on what their job refers to. Results are in the order of the protocols.
[[nodiscard]] std::vector<run_result> compare(compare_settings const& settings);

/// Runs every protocol of the settings as often as they say, at one rate, so that a difference can be told from chance.
/// Rounds have all protocols in turn. In virtual time each has a seed of its own, which all that is drawn and the order
/// of the data go by, the first that of the settings. In wall time all have the same, and a round of which nothing is
/// kept comes first: it pays for what a machine does the first time; each round begins with the next protocol, so that
/// none always runs behind the same one. A rate is tried three times there, of which the one in the middle counts.
/// @param what what the settings' job refers to
[[nodiscard]] std::vector<repeated> compare_rounds(compare_settings const& settings, subject const& what);

/// How many commits each worker makes at most, of a protocol that makes the job's steps between them.
[[nodiscard]] std::int64_t commits_of(training const& job);

/// Fills in the target that was asked for: 98% of the way that one worker gets, see `find_reach`.
void set_target(compare_settings& settings);

}  // namespace rubato::bench
