// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <span>
#include <string>

#include "bench/result/repeated.hpp"

namespace rubato::bench {

// Figures with a row for each protocol, best first, as the table has them.

/// The time to the target, on a log axis: the median, and the quartiles where there are several rounds.
[[nodiscard]] std::string time_to_target(std::span<repeated const> best_first);
/// Compute, send and wait as shares, with the time that a worker took for all of it written beside: so a slow one does
/// not flatten the others.
[[nodiscard]] std::string where_time_went(std::span<run_result const> best_first);
/// How far reads were behind their readers.
[[nodiscard]] std::string staleness_of_reads(std::span<run_result const> best_first);

/// One row: a name, a picture of SVG and a value.
[[nodiscard]] std::string plot_row(std::string const& name, std::string const& content, std::string const& value);
/// "compute", "send" and "wait" with their colours.
[[nodiscard]] std::string activity_key();

}  // namespace rubato::bench
