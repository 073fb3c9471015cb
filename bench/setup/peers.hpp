// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/application/application.hpp"
#include "bench/train/protocols.hpp"
#include "bench/train/training.hpp"

namespace rubato::bench {

/// Why a protocol without a server cannot run this job on its graph, or nothing where it can:
/// "ad_psgd: the graph ring of 5 nodes is not bipartite".
/// @throws option_error for a graph that cannot be
[[nodiscard]] std::optional<std::string> obstacle(protocol_choice const& protocol,
                                                  training const& job);

/// Why an application cannot run under a protocol, or nothing where it can: "asp: no damping of the
/// Lasso is known to be safe without a bound on staleness".
[[nodiscard]] std::optional<std::string> obstacle(protocol_choice const& protocol,
                                                  application_options const& app);

/// Leaves out of "all" what cannot run, and says of each why. What does not add commits up is left out for
/// an application without a word.
/// @throws option_error for what was asked for by name and cannot run
[[nodiscard]] std::vector<std::string> leave_out_impossible(
    std::vector<protocol_choice>& protocols, training const& job,
    std::optional<application_options> const& app = std::nullopt);

}  // namespace rubato::bench
