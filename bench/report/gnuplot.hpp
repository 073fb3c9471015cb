// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>

namespace rubato::bench {

/// Whether there is a gnuplot to run.
[[nodiscard]] bool gnuplot_is_installed();

/// Runs gnuplot on a script in a child process and returns what the script drew: it must set the
/// terminal, and not the output. @throws error with gnuplot's own words when it fails
[[nodiscard]] std::string run_gnuplot(std::string const& script);

}  // namespace rubato::bench
