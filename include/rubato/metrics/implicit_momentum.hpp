// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <numeric>
#include <span>

#include "rubato/core/time.hpp"

namespace rubato {

/// The momentum that M workers' local steps between commits amount to: `1 − p` with
/// `p = 1/(1 + (1 − 1/M)·Σ τ_i)`, where worker i makes τ_i local steps per commit. In [0, 1); 0 for
/// a single worker. Source: 003 Theorem 1, Eq. 3.
/// @param local_steps τ_i of each worker, 0 or more
[[nodiscard]] inline double implicit_momentum(std::span<double const> local_steps) noexcept {
  if (local_steps.empty()) return 0;
  double const others = 1 - 1 / static_cast<double>(local_steps.size());
  double const staleness = others * std::accumulate(local_steps.begin(), local_steps.end(), 0.0);
  return staleness / (1 + staleness);
}

/// How fast a worker trains and commits.
struct worker_rate {
  double steps_per_second = 0;   ///< v_i
  double commits_per_period = 1; ///< ΔC_i, above 0
};

/// The same from speeds and commit rates: `τ_i = Γ·v_i/ΔC_i`. As printed, 003 Eq. 3 has
/// `Γ/(ΔC_i·v_i)`, which is the number of steps only if v_i is the time of a step; here it is steps
/// per second, as the text says.
[[nodiscard]] inline double implicit_momentum(std::span<worker_rate const> workers,
                                              duration check_period) noexcept {
  if (workers.empty()) return 0;
  double sum = 0;
  for (worker_rate const& w : workers)
    sum += to_seconds(check_period) * w.steps_per_second / w.commits_per_period;
  double const staleness = (1 - 1 / static_cast<double>(workers.size())) * sum;
  return staleness / (1 + staleness);
}

}  // namespace rubato
