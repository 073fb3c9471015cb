// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "bench/advise/search.hpp"

namespace rubato::bench {

/// One result for each finalist, best first: medians over its runs of time and updates to the target, means of the
/// losses and accuracies, and all its workers' time, so that `comparison_table` and `explain` speak of all seeds. A
/// runner-up that was cut off is summed up by its runs on the new seeds.
[[nodiscard]] std::vector<run_result> summaries(search_result const& found);

/// What is recommended, how sure that is and why; the finalists; what was dropped when; what it cost.
[[nodiscard]] std::string advice_text(search_result const& found, std::span<candidate const> candidates,
                                      search_options const& options);

/// The same as JSON: {"best", "runner_up", "certainty", "finalists", "rounds", "candidates", "rates", "cost_steps"};
/// best is null where nobody reached the target. Seeds count from 0. What is not finite is null, and so is what speaks
/// of chance where runs do not differ by seed.
[[nodiscard]] nlohmann::ordered_json advice_json(search_result const& found,
                                                 std::span<candidate const> candidates,
                                                 search_options const& options);

}  // namespace rubato::bench
