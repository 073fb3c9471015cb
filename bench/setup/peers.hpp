// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/train/protocols.hpp"
#include "bench/train/training.hpp"

namespace rubato::bench {

/// Why a protocol without a server cannot run this job on its graph, or nothing where it can:
/// "ad_psgd: the graph ring of 5 nodes is not bipartite".
/// @throws option_error for a graph that cannot be
[[nodiscard]] std::optional<std::string> obstacle(protocol_choice const& protocol,
                                                  training const& job);

/// Leaves out of "all" what cannot run, and says of each why.
/// @throws option_error for what was asked for by name and cannot run
[[nodiscard]] std::vector<std::string> leave_out_impossible(std::vector<protocol_choice>& protocols,
                                                            training const& job);

}  // namespace rubato::bench
