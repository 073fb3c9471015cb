// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <CLI/CLI.hpp>

namespace rubato::bench {

// The sub-commands of rubato-bench. Each function adds one to the program: its options, and what it
// does once they have been parsed. A new one is a line here and a line in main.cpp.

/// Runs protocols on one workload and says which wins, by how much, and why.
void add_compare(CLI::App& program);
/// Measures the hot paths beside their physical limit in the same run.
void add_micro(CLI::App& program);
/// Reruns a figure or table of the papers and prints ours beside theirs, or one of our own.
void add_reproduce(CLI::App& program);

}  // namespace rubato::bench
