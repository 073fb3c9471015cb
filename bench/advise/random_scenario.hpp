// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string>

#include "bench/advise/settings.hpp"

namespace rubato::bench {

/// A cluster and data drawn at random, for `settings` whose other members stay: 4 to 16 workers, 1 to 4 servers, 10
/// Mbit/s to 1 Gbit/s, 20 us to 20 ms of latency, 30 ns to 1 us for a value, jitter on steps and messages; up to
/// half the workers up to 4 times slower in three of four scenarios, steps that stall now and then in one of four; 400
/// to 1600 rows with 4 to 16 values of 40 to 320 features, unless the data come from a file.
void draw_scenario(advise_settings& settings, std::uint64_t seed);

/// What was drawn, in a few words: "9 workers, 2 slow by 2.5, 3 servers, 1.2 ms latency, 100 Mbit/s, 90 ns a value; 800
/// rows of 120".
[[nodiscard]] std::string describe_scenario(advise_settings const& settings);

}  // namespace rubato::bench
