// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "bench/advise/search.hpp"

namespace rubato::bench {

/// What came of the race on seed 0.
struct race_result {
  std::vector<finalist> arrived{};     ///< in time, with the run on seed 0 each; in the order of the list
  std::vector<search_round> rounds{};
  std::optional<run_result> lowest{};  ///< of all runs that ended, where nobody arrived
};

/// The first part of `search`. Arms that reached the target within `slack` times the best time go on; where all of
/// them are of one candidate, the next best one within 4 times that time is let in, so that there is a runner-up: also
/// an arm that had fallen behind, so that without a runner-up no arm of another candidate gets there in that time.
[[nodiscard]] race_result race(std::span<candidate const> candidates, search_options const& options);

}  // namespace rubato::bench
