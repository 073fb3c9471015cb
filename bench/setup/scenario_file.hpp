// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rubato/sim/scenario.hpp"

namespace rubato::bench {

/// Reads a scenario from JSON whose members are those of `sim::scenario`; what is missing has the
/// default of that struct. A time is a string with a unit ("100us", "1.5 s"; ns, us, ms, s) or a
/// number of seconds; a jitter is {"kind": "lognormal", "sigma": 0.1} and so on.
///
///     {"speed":   {"work_cost": "100ns", "heterogeneity": {"level": 2, "slow_fraction": 0.2}},
///      "network": {"worker_link": {"latency": "100us", "bandwidth": 125000000}},
///      "crashes": [{"worker": 3, "at": "2s"}]}
///
/// `name` stands for the text in errors.
/// @throws option_error that names the member, also for one that does not exist
[[nodiscard]] sim::scenario parse_scenario(std::string_view json, std::string_view name);

/// Reads a time as scenario files have it: "100us", "1.5 s", or "0.2" in seconds; nothing where the
/// text is no time.
[[nodiscard]] std::optional<duration> parse_time(std::string const& text);

/// A built-in scenario by its name, made for so many workers, else the scenario in the file of that
/// name.
/// @throws option_error when there is neither
[[nodiscard]] sim::scenario load_scenario(std::string const& name_or_file, std::size_t workers);

/// What is built in: a name and a sentence. Where workers differ, there are as many as asked for.
struct named_scenario {
  std::string_view name;
  std::string_view meaning;
  sim::scenario (*make)(std::size_t workers);
};
[[nodiscard]] std::vector<named_scenario> const& built_in_scenarios();
/// Their names with commas between them.
[[nodiscard]] std::string built_in_scenario_names();

}  // namespace rubato::bench
