// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <span>
#include <vector>

#include "bench/advise/search.hpp"

namespace rubato::bench {

/// The second part of `search`: runs those that arrived on the other seeds, and returns the best arm of each candidate,
/// best first. On each seed the leader runs first, which sets the others' deadline. After each an arm leaves whose
/// median is more than a quarter above the leader's; the best arm of the second candidate never does.
[[nodiscard]] std::vector<finalist> heats(std::span<candidate const> candidates,
                                          search_options const& options,
                                          std::vector<finalist> arrived,
                                          std::vector<search_round>& rounds);

}  // namespace rubato::bench
