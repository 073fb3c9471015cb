// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/result/run_result.hpp"

namespace rubato::bench {

/// The objective over time and over updates, as figures: a line for each result, named at its end.
[[nodiscard]] std::string loss_over_time(std::span<run_result const> results);
[[nodiscard]] std::string loss_over_updates(std::span<run_result const> results);

/// Moves labels apart that would overprint each other: from where they should be, 0 to 1, to where they are at least
/// `apart` from the next one, in the same order and as near as can be from above, within 0 to 1 if there is room.
[[nodiscard]] std::vector<double> spread_out(std::vector<double> wished, double apart);

}  // namespace rubato::bench
