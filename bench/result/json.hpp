// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "bench/result/run_result.hpp"

namespace rubato::bench {

/// One object per run, with the fields of the design in its order; then accuracy,
/// staleness_histogram, versions_peak and trials. What was not reached, and what is not finite, is
/// null.
[[nodiscard]] nlohmann::ordered_json to_json(std::span<run_result const> results);

/// Writes them to a file. @throws option_error when that cannot be done
void write_json(std::span<run_result const> results, std::string const& file);

}  // namespace rubato::bench
