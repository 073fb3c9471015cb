// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "bench/result/run_result.hpp"

namespace rubato::bench {

/// JSON knows no infinity: what is not finite is null.
[[nodiscard]] nlohmann::ordered_json or_null(double x);
/// What is not there is null.
[[nodiscard]] nlohmann::ordered_json or_null(std::optional<double> const& x);
[[nodiscard]] nlohmann::ordered_json or_null(std::optional<std::uint64_t> const& x);

/// One object per run, with the fields of the design in its order; then the round, accuracy,
/// staleness_histogram, versions_peak, trials and what else there is. What was not reached, and what
/// is not finite, is null.
[[nodiscard]] nlohmann::ordered_json to_json(std::span<run_result const> results);

/// The object of one run.
[[nodiscard]] nlohmann::ordered_json to_json(run_result const& result);

/// Reads such an object back. What is not in it stays empty; what was not finite is no number.
/// @throws data_error for what is no such object
[[nodiscard]] run_result from_json(nlohmann::ordered_json const& object);

/// Before anything runs, so that a name that cannot be written to does not cost the results. "" is no file.
/// @throws option_error
void check_json_is_possible(std::string const& file);

/// Writes them to a file. @throws option_error when that cannot be done
void write_json(std::span<run_result const> results, std::string const& file);

}  // namespace rubato::bench
