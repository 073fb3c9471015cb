// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "bench/setup/settings.hpp"

namespace rubato::bench {

/// Takes part in a job of MPI: rank 0 compares, the others run what it says. Collective.
/// @throws what `run_compare` does; process_failure
void run_compare_over_mpi(compare_options const& options);

}  // namespace rubato::bench
