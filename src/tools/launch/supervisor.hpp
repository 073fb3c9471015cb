// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string_view>

#include "src/tools/launch/options.hpp"

namespace rubato::launch {

/// Starts the processes, looks after them until all have ended, and returns the exit code.
[[nodiscard]] int supervise(options const& o);

/// A line about what goes wrong before or after a run, to standard error.
void say(std::string_view sentence, net::log_format how = net::log_format::text);

}  // namespace rubato::launch
