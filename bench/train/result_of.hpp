// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/result/run_result.hpp"
#include "bench/train/training.hpp"
#include "rubato/core/clock.hpp"

namespace rubato::bench {

/// The part of a result that says what was run.
[[nodiscard]] run_result describe(training const& job, std::string_view protocol, staleness s);
/// The part that follows from the curve.
/// @param updates_in_clock what all workers together make in a clock
void fill_in_curve(run_result& r, training const& job, std::uint64_t updates_in_clock,
                   std::vector<curve_point> curve);
/// The part that follows from a workload's parameters at the end.
void fill_in_parameters(run_result& r, training const& job, std::vector<float> const& parameters);

}  // namespace rubato::bench
