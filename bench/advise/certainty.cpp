// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/advise/certainty.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bench/advise/runs.hpp"
#include "bench/result/sign_test.hpp"

namespace rubato::bench {

namespace {

bool all_the_same(std::vector<run_result> const& runs) {
  return std::ranges::all_of(runs, [&](run_result const& r) {
    run_result const& first = runs.front();
    return r.seconds_to_target == first.seconds_to_target && r.seconds == first.seconds && r.steps == first.steps &&
           (r.final_loss == first.final_loss || (std::isnan(r.final_loss) && std::isnan(first.final_loss)));
  });
}

}  // namespace

certainty certainty_of(duel const& d) {
  certainty c{.seeds = d.winner.size()};
  if (c.seeds == 0) return c;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < c.seeds; ++i) {
    double const ours = time_to_target(d.winner[i]);
    double const theirs = time_to_target(d.runner_up[i]);
    if (ours < theirs) ++c.wins;
    if (ours == theirs) ++c.ties;
    if (std::isinf(ours)) ++c.winner_missed;
    if (std::isinf(theirs)) ++c.runner_up_missed;
    // Not a number where neither got there, or both at once: no difference.
    ratios.push_back(ours == theirs ? 1 : theirs / ours);
  }
  std::size_t const decided = c.seeds - c.ties;
  c.p_value = decided == 0 ? 1 : sign_test(c.wins, decided);
  std::ranges::sort(ratios);
  c.least = ratios.front();
  c.greatest = ratios.back();
  c.margin = median(ratios);
  // A winner that is slower on all of these was faster on those of the choice.
  c.seeds_differ = c.seeds == 1 || !all_the_same(d.winner) || !all_the_same(d.runner_up) || c.margin < 1;
  c.interval_level = 1 - std::exp2(1 - static_cast<double>(c.seeds));
  return c;
}

}  // namespace rubato::bench
