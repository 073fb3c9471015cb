// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <span>

#include "bench/advise/search.hpp"

namespace rubato::bench {

/// How sure it is that one candidate is faster than another, from runs that are paired by seed.
struct certainty {
  std::size_t wins = 0;      ///< seeds on which the winner was faster
  std::size_t ties = 0;      ///< … as fast, or neither got there
  std::size_t seeds = 0;
  std::size_t winner_missed = 0;     ///< seeds on which the winner did not get to the target
  std::size_t runner_up_missed = 0;  ///< … and the runner-up
  bool seeds_differ = true;  ///< false where both made the same run on each of several seeds: nothing is drawn
  double p_value = 1;        ///< of a two-sided sign test: ties left out, the exact binomial distribution
  double margin = 1;         ///< median over seeds of the runner-up's time over the winner's
  double least = 1;          ///< the ratio of the seed where it is least, …
  double greatest = 1;       ///< … and greatest; infinite where the runner-up did not get there
  double interval_level = 0; ///< how likely the true median lies between these two: 1 - 2^(1 - seeds)
};

/// @returns a certainty of no seeds where there was no runner-up. O(seeds log seeds)
[[nodiscard]] certainty certainty_of(duel const& d);

}  // namespace rubato::bench
