// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "bench/train/workload.hpp"

namespace rubato::bench {

/// What there is to gain in a workload: the objective of the initial parameters, and the lowest one
/// that serial SGD finds from there in a few passes at any of several rates.
struct reach {
  double start;
  double lowest;

  /// The objective at which `share` of the way is done.
  [[nodiscard]] double at(double share) const { return start - share * (start - lowest); }
};
[[nodiscard]] reach find_reach(workload const& work);

}  // namespace rubato::bench
