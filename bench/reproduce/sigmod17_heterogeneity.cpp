// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// The central claim of "Heterogeneity-aware Distributed Parameter Servers" (SIGMOD 2017, §3.2 and table 3): from HL
// 1 to 2 the updates of ASP grow 4 to 7.5 times and those of SSP 1.5 to 6 times. What has to hold for that? One
// thing is changed at a time.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/compare/compare.hpp"
#include "bench/compare/reference.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/sigmod17.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {
namespace {

using sigmod17::clock_is;

constexpr std::array levels = {1.0, 2.0, 4.0};

/// What is run, and how it differs from table 3's setting.
struct variant {
  char const* name;
  std::vector<std::string> protocols = {"asp", "ssp:3", "con_sgd:3"};
  clock_is clock = clock_is::batch;
  double part_of_the_way = 0.98;
  double decay = 0.2;
  row_order shards{};
  bool sparse = false;       ///< synthetic rows shaped like URL in place of a9a
  bool keeps_rates = false;  ///< those of HL 1
};

std::vector<variant> variants() {
  using enum row_order::kind;
  std::vector<std::string> const averaged = {"asp+average", "ssp+average:3", "con_sgd:3"};
  row_order const half{.how = by_label, .labelled = 0.5}, whole{.how = by_label};
  return {
      {.name = "as table 3"},
      {.name = "a clock is a pass", .clock = clock_is::pass},
      {.name = "to 90% of the way", .part_of_the_way = 0.9},
      {.name = "to 99.5% of the way", .part_of_the_way = 0.995},
      {.name = "rates do not decay", .decay = 0},
      {.name = "sparse rows", .sparse = true},
      {.name = "the rates of HL 1", .keeps_rates = true},
      {.name = "updates are averaged", .protocols = averaged},
      {.name = "shards ordered", .shards = {.how = ordered}},
      {.name = "shards by-label:0.5", .shards = half},
      {.name = "shards by-label:1", .shards = whole},
      {.name = "the last, and the rates of HL 1", .shards = whole, .keeps_rates = true},
  };
}

workload make_workload(variant const& v, reproduce_options o) {
  o.shards = v.shards;
  loaded_data const data = v.sparse ? load_data({.synthetic = "url", .shards = v.shards}, o.seed) : sigmod17::load(o);
  return sigmod17::make_workload(model_kind::lr, data);
}

using results = std::vector<run_result>;  // in the order of the protocols

results run_level(workload const& work, variant const& v, double level, double target, results const& at_1,
                  reproduce_options const& options) {
  reproduce_options o = options;
  o.shards = v.shards;
  compare_settings s;
  s.job = sigmod17::job(work, target, options.clocks.value_or(100), o, v.clock);
  s.job.scenario.speed.heterogeneity.level = level;
  s.job.decay = v.decay;
  s.job.stop.at_target = true;
  s.protocols = parse_protocols(v.protocols, {});
  if (!v.keeps_rates || at_1.empty()) return compare(s);
  results all;
  for (std::size_t i = 0; i < s.protocols.size(); ++i) {
    s.job.learning_rate = at_1[i].learning_rate;
    all.push_back(s.protocols[i].run(s.job));
  }
  return all;
}

std::string show_updates(run_result const& r) {
  return fmt::format("{}{}", r.seconds_to_target ? "" : ">", r.counted_updates());
}

std::string show_growth(run_result const& r, run_result const& at_1) {
  if (!at_1.seconds_to_target) return "-";
  double const ratio = static_cast<double>(r.counted_updates()) / static_cast<double>(at_1.counted_updates());
  return fmt::format("{}{:.2f}x", r.seconds_to_target ? "" : ">", ratio);
}

void add_rows(text_table& t, variant const& v, std::array<results, levels.size()> const& found) {
  for (std::size_t i = 0; i < v.protocols.size(); ++i) {
    std::vector<std::string> row = {v.name, found[0][i].label};
    for (results const& r : found) row.push_back(show_updates(r[i]));
    for (std::size_t k = 1; k < levels.size(); ++k) row.push_back(show_growth(found[k][i], found[0][i]));
    t.rows.push_back(std::move(row));
  }
}

}  // namespace

void reproduce_sigmod17_heterogeneity(reproduce_options const& options) {
  fmt::print(
      "Updates to the target at HL 1, 2 and 4, and how many times those of HL 1 that is; LR, 30 workers, rates tuned "
      "for each HL unless said otherwise. In table 3 of the paper, from HL 1 to 2: ASP 4 to 7.5 times, SSP(3) 1.5 to "
      "2.8 times, ConSGD(3) 1.2 to 1.8 times.\n\n");
  text_table t{.head = {"changed", "", "HL 1", "HL 2", "HL 4", "HL 2 / 1", "HL 4 / 1"}, .rows = {}};
  for (variant const& v : variants()) {
    workload const work = make_workload(v, options);
    double const target = find_reach(work, v.shards).at(v.part_of_the_way);
    std::array<results, levels.size()> found;
    for (std::size_t k = 0; k < levels.size(); ++k) found[k] = run_level(work, v, levels[k], target, found[0], options);
    add_rows(t, v, found);
  }
  fmt::print("{}", t.to_string());
}

}  // namespace rubato::bench
