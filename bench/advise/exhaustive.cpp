// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/advise/exhaustive.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "bench/advise/runs.hpp"

namespace rubato::bench {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// The runs of one seed, and what they cost. Curves go before the next seed's come.
void run_seed(std::span<candidate const> candidates, search_options const& o, std::size_t seed,
              exhaustive_result& all, std::vector<std::vector<double>>& times) {
  std::vector<run_order> orders;
  for (arm const& a : all.arms) orders.push_back({a, seed});
  std::vector<run_result> const results = run_all(candidates, orders, o.lanes);
  all.cost += cost_of(results);
  double best = never;
  for (std::size_t i = 0; i < results.size(); ++i) {
    times[i].push_back(time_to_target(results[i]));
    best = std::min(best, times[i].back());
    all.cost_with_cuts += cost_until(results[i], best);
  }
}

}  // namespace

double exhaustive_result::seconds_of(arm const& a) const {
  return seconds[static_cast<std::size_t>(std::ranges::find(arms, a) - arms.begin())];
}

exhaustive_result search_exhaustively(std::span<candidate const> candidates,
                                      search_options const& o) {
  exhaustive_result all;
  for (std::size_t c = 0; c < candidates.size(); ++c)
    for (double const rate : o.rates) all.arms.push_back({c, rate});
  std::vector<std::vector<double>> times(all.arms.size());
  for (std::size_t seed = 0; seed < o.seeds; ++seed) run_seed(candidates, o, seed, all, times);
  all.best_seconds = never;
  all.of_candidate.assign(candidates.size(), never);
  for (std::size_t i = 0; i < all.arms.size(); ++i) {
    double const seconds = median(std::move(times[i]));
    all.seconds.push_back(seconds);
    double& own = all.of_candidate[all.arms[i].candidate];
    own = std::min(own, seconds);
    if (seconds < all.best_seconds) {
      all.best_seconds = seconds;
      all.best = all.arms[i];
    }
  }
  return all;
}

}  // namespace rubato::bench
