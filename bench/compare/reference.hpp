// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "bench/train/training.hpp"

namespace rubato::bench {

/// What there is to gain: the objective of what training begins with, and the lowest one that is found from there.
struct reach {
  double start;
  double lowest;

  /// The objective at which `share` of the way is done.
  [[nodiscard]] double at(double share) const { return start - share * (start - lowest); }
};
/// By serial SGD in a few passes at any of several rates, which has the rows at random, in whatever order they lie.
[[nodiscard]] reach find_reach(workload const& work, row_order const& shards = {});
/// The same of the job's workload; or, of its application, by one worker that goes over the data half as often as those
/// of the job, at any of several rates where it has one.
[[nodiscard]] reach find_reach(training const& job);

}  // namespace rubato::bench
