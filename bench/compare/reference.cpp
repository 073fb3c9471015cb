// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/compare/reference.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "rubato/model/learning_rate.hpp"

namespace rubato::bench {
namespace {

double serial_sgd(workload const& work, double sigma) {
  constexpr int passes = 10;
  model::decayed_rate const rate{.sigma = sigma, .alpha = 0.5};
  std::vector<float> w(work.initial().begin(), work.initial().end()), delta(work.parameters());
  double lowest = work.objective(w);
  for (int pass = 0; pass < passes; ++pass) {
    double const eta = rate(clock_index(pass));
    for (data::dataset_view const batch : work.train().rows().batches(data::fraction{0.01})) {
      work.local_step(batch, eta, w, delta);
      std::ranges::transform(w, delta, w.begin(), std::plus<>());
    }
    double const now = work.objective(w);
    if (!std::isfinite(now) || now > 10 * lowest) break;
    lowest = std::min(lowest, now);
  }
  return lowest;
}

}  // namespace

reach find_reach(workload const& work) {
  double const start = work.objective(work.initial());
  double lowest = start;
  for (double sigma = 1.0 / 64; sigma <= 64; sigma *= 4)
    lowest = std::min(lowest, serial_sgd(work, sigma));
  return {start, lowest};
}

}  // namespace rubato::bench
