// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/advise/search.hpp"

namespace rubato::bench {

/// What running everything says: what a `search` is measured by.
struct exhaustive_result {
  arm best{};
  double best_seconds = 0;  ///< its median over the seeds; infinite where nobody gets there
  std::vector<arm> arms{};
  std::vector<double> seconds{};      ///< of each arm: the median over seeds
  std::vector<double> of_candidate{};  ///< of each candidate: that of its best arm
  std::uint64_t cost = 0;  ///< in local steps: each run to the target or to its end
  /// The same if each run were cut off once it takes longer than the best one so far on its seed.
  std::uint64_t cost_with_cuts = 0;

  /// The median of one of the arms. @pre it is one of them
  [[nodiscard]] double seconds_of(arm const& a) const;
};

/// Runs every candidate at every rate on every seed that decides, each to the target; of `options` the rates, seeds
/// and lanes count. The best is the arm with the least median; of equals the first.
[[nodiscard]] exhaustive_result search_exhaustively(std::span<candidate const> candidates,
                                                    search_options const& options);

}  // namespace rubato::bench
