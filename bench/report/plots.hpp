// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/result/run_result.hpp"

namespace rubato::bench {

/// A plot of the report: a gnuplot script, and what to write above and below the picture.
struct plot {
  std::string name;  ///< tells its identifiers from those of others in one page
  std::string title;
  std::string caption;
  std::string script;
};

/// Loss over time and over updates, where the time went, staleness of reads. A protocol has the
/// same colour in all of them.
[[nodiscard]] std::vector<plot> make_plots(std::span<run_result const> results);

}  // namespace rubato::bench
