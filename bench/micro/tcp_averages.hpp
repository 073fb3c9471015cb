// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

// Averages over TCP of as many floats as there are parameters, and what their other processes do.
namespace rubato::bench {

/// Of how many floats, by name.
[[nodiscard]] inline std::vector<std::pair<std::string, std::size_t>> sizes_of_averages() {
  return {{"64K", std::size_t{1} << 16}, {"1M", std::size_t{1} << 20}, {"16M", std::size_t{1} << 24}};
}

/// The worker that is not measured, by the words after `--serve`.
void serve_average(std::vector<std::string> const& words);

}  // namespace rubato::bench
