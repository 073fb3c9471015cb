// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>
#include <vector>

// Training on sparse examples over TCP, and what its other processes do.
namespace rubato::bench {

/// The worker that does not measure, by the words after `--serve`.
void serve_training(std::vector<std::string> const& words);

}  // namespace rubato::bench
