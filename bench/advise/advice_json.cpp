// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <nlohmann/json.hpp>

#include "bench/advise/advice.hpp"
#include "bench/advise/certainty.hpp"
#include "bench/result/json.hpp"

namespace rubato::bench {
namespace {

using nlohmann::ordered_json;

ordered_json choice(finalist const& f, std::span<candidate const> candidates) {
  return {{"candidate", candidates[f.what.candidate].label},
          {"learning_rate", f.what.learning_rate},
          {"median_seconds_to_target", or_null(f.median_seconds())}};
}

ordered_json seconds_by_seed(finalist const& f) {
  ordered_json all = ordered_json::array();
  for (run_result const& r : f.runs) all.push_back(or_null(r.seconds_to_target));
  return all;
}

/// @param s its summary, of all its runs
ordered_json details(finalist const& f, run_result const& s, std::span<candidate const> candidates) {
  ordered_json o = choice(f, candidates);
  o["seconds_by_seed"] = seconds_by_seed(f);
  o["updates"] = s.counted_updates();
  o["seconds_per_update"] = or_null(s.counted_seconds_per_update());
  o["compute_share"] = s.counted_split.share(s.counted_split.compute);
  o["send_share"] = s.counted_split.share(s.counted_split.send);
  o["wait_share"] = s.counted_split.share(s.counted_split.wait);
  o["final_loss"] = or_null(s.final_loss);
  o["accuracy"] = or_null(s.accuracy);
  return o;
}

ordered_json surety(duel const& d) {
  if (d.winner.empty()) return nullptr;
  certainty const c = certainty_of(d);
  auto const of_chance = [&](double x) { return c.seeds_differ ? or_null(x) : ordered_json(nullptr); };
  return {{"seeds", c.seeds},
          {"wins", c.wins},
          {"ties", c.ties},
          {"winner_missed", c.winner_missed},
          {"runner_up_missed", c.runner_up_missed},
          {"p_value", of_chance(c.p_value)},
          {"margin", or_null(c.margin)},
          {"margin_least", of_chance(c.least)},
          {"margin_greatest", of_chance(c.greatest)},
          {"interval_level", of_chance(c.interval_level)}};
}

ordered_json round_json(search_round const& r) {
  return {{"seed", r.seed},
          {"seeds", r.seeds},
          {"deadline", or_null(r.deadline)},
          {"runs", r.runs},
          {"cost_steps", r.cost},
          {"arrived", r.arrived},
          {"behind", r.behind},
          {"late", r.late},
          {"diverged", r.diverged},
          {"ended", r.ended},
          {"readmitted", r.readmitted},
          {"out", r.gone}};
}

}  // namespace

ordered_json advice_json(search_result const& found, std::span<candidate const> candidates,
                         search_options const& o) {
  std::vector<finalist> const& f = found.finalists;
  ordered_json all;
  all["best"] = f.empty() ? ordered_json(nullptr) : choice(f[0], candidates);
  all["runner_up"] = f.size() < 2 ? ordered_json(nullptr) : choice(f[1], candidates);
  all["certainty"] = surety(found.last);
  all["finalists"] = all["rounds"] = all["candidates"] = ordered_json::array();
  auto const summary = summaries(found);
  for (std::size_t i = 0; i < f.size(); ++i)
    all["finalists"].push_back(details(f[i], summary[i], candidates));
  for (search_round const& r : found.rounds) all["rounds"].push_back(round_json(r));
  for (candidate const& c : candidates) all["candidates"].push_back(c.label);
  all["rates"] = o.rates;
  all["cost_steps"] = found.cost();
  return all;
}

}  // namespace rubato::bench
