// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/advise/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/advise/random_scenario.hpp"
#include "bench/compare/progress_bar.hpp"
#include "bench/result/json.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {
namespace {

double share(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

std::size_t count(std::vector<comparison_with_all> const& all, bool (comparison_with_all::*what)() const) {
  return static_cast<std::size_t>(
      std::ranges::count_if(all, [&](comparison_with_all const& c) { return (c.*what)(); }));
}

std::string choice(std::string const& label, double rate) {
  if (label.empty()) return "none";
  return rate == 0 ? label : label + " " + show_number(rate);
}

}  // namespace

comparison_with_all compare_with_all(problem& p) {
  search_options const options = p.search_settings();
  auto const& candidates = p.candidates();
  search_result const found = search(candidates, options);
  exhaustive_result const all = search_exhaustively(candidates, options);
  comparison_with_all c{.scenario = describe_scenario(p.settings())};
  c.cost = found.cost();
  c.exhaustive_cost = all.cost;
  c.exhaustive_cost_with_cuts = all.cost_with_cuts;
  if (std::isfinite(all.best_seconds)) {
    c.best = candidates[all.best.candidate].label;
    c.best_rate = all.best.learning_rate;
    c.equals = static_cast<std::size_t>(std::ranges::count_if(all.of_candidate, [&](double seconds) {
      return seconds <= (1 + comparison_with_all::tolerance) * all.best_seconds;
    }));
  }
  if (c.best.empty() && found.finalists.empty()) return c;
  c.excess = std::numeric_limits<double>::infinity();
  if (found.finalists.empty()) return c;
  arm const& advised = found.finalists.front().what;
  c.advised = candidates[advised.candidate].label;
  c.advised_rate = advised.learning_rate;
  double const seconds = all.seconds_of(advised);
  if (!c.best.empty()) c.excess = seconds == all.best_seconds ? 0 : seconds / all.best_seconds - 1;  // both may be 0
  return c;
}

std::vector<comparison_with_all> check_on_random_scenarios(advise_settings const& settings) {
  progress_bar progress(settings.check);
  std::vector<comparison_with_all> all;
  for (std::size_t i = 0; i < settings.check; ++i, progress.advance()) {
    progress.show(fmt::format("scenario {} of {}", i + 1, settings.check));
    advise_settings one = settings;
    draw_scenario(one, settings.base.job.seed + i);
    problem p(std::move(one));
    all.push_back(compare_with_all(p));
  }
  return all;
}

std::string check_text(std::vector<comparison_with_all> const& all) {
  text_table t{.head = {"scenario", "advice", "exhaustive search", "excess", "as good", "cost", "of all",
                        "of all, cut"},
               .rows = {}};
  std::uint64_t cost = 0, exhaustive = 0, cut = 0;
  for (comparison_with_all const& c : all) {
    t.rows.push_back({c.scenario, choice(c.advised, c.advised_rate), choice(c.best, c.best_rate),
                      std::isfinite(c.excess) ? fmt::format("{:.1f}%", 100 * c.excess) : "-",
                      std::to_string(c.equals), std::to_string(c.cost),
                      fmt::format("{:.1f}%", 100 * share(c.cost, c.exhaustive_cost)),
                      fmt::format("{:.1f}%", 100 * share(c.cost, c.exhaustive_cost_with_cuts))});
    cost += c.cost;
    exhaustive += c.exhaustive_cost;
    cut += c.exhaustive_cost_with_cuts;
  }
  std::size_t const nobody = count(all, &comparison_with_all::nobody);
  std::string const left_out =
      nobody == 0 ? ""
                  : fmt::format("Nobody gets there in {} of {} scenarios, which are left out.\n", nobody, all.size());
  return t.to_string() + '\n' + left_out +
         fmt::format("The same protocol in {} of {} scenarios; the same or one whose time is within {:.0f}% of the "
                     "best in {}.\nCost in local steps: {:.1f}% of an exhaustive search's, {:.1f}% of one's that cuts "
                     "off each run once it takes longer than the best so far.\n",
                     count(all, &comparison_with_all::same_choice), all.size() - nobody,
                     100 * comparison_with_all::tolerance,
                     count(all, &comparison_with_all::agrees), 100 * share(cost, exhaustive), 100 * share(cost, cut));
}

nlohmann::ordered_json check_json(std::vector<comparison_with_all> const& all) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (comparison_with_all const& c : all)
    json.push_back({{"scenario", c.scenario},
                    {"advised", c.advised},
                    {"advised_rate", c.advised_rate},
                    {"best", c.best},
                    {"best_rate", c.best_rate},
                    {"excess", or_null(c.excess)},
                    {"as_good", c.equals},
                    {"cost_steps", c.cost},
                    {"exhaustive_cost_steps", c.exhaustive_cost},
                    {"exhaustive_cost_steps_with_cuts", c.exhaustive_cost_with_cuts}});
  return json;
}

}  // namespace rubato::bench
