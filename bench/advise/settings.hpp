// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/setup/settings.hpp"

namespace rubato::bench {

/// The options of `advise` as they are typed: those of `compare` that speak of data, workload, scenario and target,
/// and its own.
struct advise_options {
  advise_options();

  compare_options base;  ///< no protocols: the usual ones
  std::vector<std::int64_t> staleness{1, 2, 3, 5, 10};  ///< that a protocol with one is tried at
  std::size_t seeds = 5;
  std::size_t check = 0;  ///< random scenarios to check the search on; 0: give advice

  /// Adds the options to a command; they are written here when it is parsed.
  void add_to(CLI::App& command);
};

/// What they mean, checked.
struct advise_settings {
  compare_settings base;  ///< its protocols are the candidates
  std::vector<double> rates;
  std::size_t seeds = 5;
  std::size_t check = 0;
};

/// A protocol that takes a staleness and is named without one is tried at each of `staleness` that is below the number
/// of clocks, for at a higher one nobody is ever held up; at the least where none is.
/// @throws option_error that names the option
[[nodiscard]] advise_settings interpret(advise_options const& options);

}  // namespace rubato::bench
