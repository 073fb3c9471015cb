// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "bench/result/timeline.hpp"
#include "bench/setup/settings.hpp"

namespace rubato::bench {

/// Runs a protocol in the simulator and writes down what its workers do: few clocks, for more cannot be seen.
/// @throws what the run throws
[[nodiscard]] timeline watch(protocol_choice const& protocol, training job, double learning_rate);

}  // namespace rubato::bench
