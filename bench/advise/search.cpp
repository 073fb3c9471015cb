// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/advise/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "bench/advise/heats.hpp"
#include "bench/advise/race.hpp"
#include "bench/advise/runs.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

void check(std::span<candidate const> candidates, search_options const& o) {
  if (candidates.empty()) throw option_error("advise: expected one protocol or more to choose from");
  if (o.rates.empty()) throw option_error("advise: expected one learning rate or more to try");
  if (o.seeds == 0) throw option_error("--seeds: must be 1 or more");
  if (!(o.first_deadline > 0)) throw option_error("advise: the first deadline must be above 0 seconds");
}

duel fight(std::span<candidate const> candidates, search_options const& o,
           std::vector<finalist> const& finalists, std::vector<search_round>& rounds) {
  if (finalists.size() < 2) return {};
  if (o.progress) o.progress("the best two on new seeds");
  std::vector<run_order> orders;
  for (std::size_t seed = o.seeds; seed < 2 * o.seeds; ++seed)
    for (std::size_t const i : {std::size_t{0}, std::size_t{1}}) orders.push_back({finalists[i].what, seed});
  std::vector<run_result> results = run_all(candidates, orders, o.lanes);
  search_round round{.seed = o.seeds,
                     .seeds = o.seeds,
                     .deadline = std::numeric_limits<double>::infinity(),
                     .runs = results.size(),
                     .cost = cost_of(results)};
  duel d;
  for (std::size_t i = 0; i < results.size(); ++i) {
    round.arrived += results[i].seconds_to_target ? 1 : 0;
    (i % 2 == 0 ? d.winner : d.runner_up).push_back(std::move(results[i]));
  }
  rounds.push_back(std::move(round));
  return d;
}

}  // namespace

double finalist::median_seconds() const {
  std::vector<double> times;
  for (run_result const& r : runs) times.push_back(time_to_target(r));
  return median(std::move(times));
}

std::uint64_t search_result::cost() const {
  std::uint64_t steps = 0;
  for (search_round const& r : rounds) steps += r.cost;
  return steps;
}

search_result search(std::span<candidate const> candidates, search_options const& o) {
  check(candidates, o);
  search_result found;
  race_result first = race(candidates, o);
  found.rounds = std::move(first.rounds);
  found.lowest = std::move(first.lowest);
  if (first.arrived.empty()) return found;
  found.lowest.reset();
  found.finalists = heats(candidates, o, std::move(first.arrived), found.rounds);
  found.last = fight(candidates, o, found.finalists, found.rounds);
  return found;
}

}  // namespace rubato::bench
