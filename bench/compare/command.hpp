// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

namespace CLI {
class App;
}

namespace rubato::bench {

/// Runs protocols on one workload and says which wins, by how much, and why.
void add_compare(CLI::App& program);

}  // namespace rubato::bench
