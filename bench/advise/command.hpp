// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "bench/advise/settings.hpp"

namespace rubato::bench {

/// Finds the protocol, its staleness and its rate that suit a scenario and a workload best, in the simulator, and
/// prints what to take, how sure that is and why; or checks that search on random scenarios.
/// @throws option_error, data_error
void run_advise(advise_options const& options);

}  // namespace rubato::bench
