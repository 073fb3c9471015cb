// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/result/curve.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace rubato::bench {

std::optional<target_reached> reaches(std::span<curve_point const> curve, double target,
                                      std::uint64_t clock) {
  arrival where(target, clock);
  for (curve_point const& p : curve)
    if (where.add(p)) break;
  if (!where.pending()) return std::nullopt;
  auto const hit = std::ranges::find_if(curve, [&](curve_point const& p) {
    return p.updates == where.since() && p.loss <= target;
  });
  return target_reached{hit->seconds, hit->updates, hit->spent, hit->steps};
}

end_of_run last_five_clocks(std::span<curve_point const> curve) {
  std::vector<double> last;
  for (auto p = curve.rbegin(); p != curve.rend() && last.size() < 5; ++p)
    if (p->ends_clock) last.push_back(p->loss);
  // A run too short for one clock has its last point.
  if (last.empty() && !curve.empty()) last.push_back(curve.back().loss);
  if (last.empty()) {
    double const none = std::numeric_limits<double>::quiet_NaN();
    return {none, none};
  }
  double sum = 0;
  for (double const x : last) sum += x;
  auto const n = static_cast<double>(last.size());
  double const mean = sum / n;
  double squares = 0;
  for (double const x : last) squares += (x - mean) * (x - mean);
  return {mean, squares / n};
}

}  // namespace rubato::bench
