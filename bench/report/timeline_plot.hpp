// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>

#include "bench/result/timeline.hpp"

namespace rubato::bench {

/// What workers do when, as a figure: a lane for each, a line from who goes on to whom it had waited for, and in words
/// who is waited for most.
[[nodiscard]] std::string timeline_figure(timeline const& t);

}  // namespace rubato::bench
