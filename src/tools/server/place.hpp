// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <CLI/CLI.hpp>

#include "rubato/net/deployment.hpp"

namespace rubato::server_tool {

/// What launchers say, in variables whose options `app` has not been given; the number of servers as options have it.
/// Numbers that count all processes count for nothing where they do not go with options that tell a process's place:
/// they may be left from another run, or be those of a job in which this is no process of the run.
/// @throws option_error that names the variable and what was expected
[[nodiscard]] net::deployment place_in_environment(CLI::App const& app);

}  // namespace rubato::server_tool
