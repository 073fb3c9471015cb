// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "bench/setup/settings.hpp"

namespace rubato::bench {

/// Runs protocols on one workload and says which wins, by how much, and why: prints a table, and writes what
/// the options ask for.
void run_compare(compare_options const& options);

}  // namespace rubato::bench
