// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Headline claims of papers whose workers wait for something else than the slowest one's clock, in virtual time. Each
// protocol has the rate that is best for it.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/ground.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/result/text.hpp"
#include "bench/setup/scenario_file.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/dssp.hpp"
#include "rubato/protocol/psp.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/protocol/vap.hpp"

namespace rubato::bench {
namespace {

/// A usual cluster, of which a part of the workers takes `level` times as long.
sim::scenario slowed(std::uint32_t workers, double part, double level) {
  sim::scenario s = load_scenario("paper-cluster", workers);
  s.speed.heterogeneity = {.level = level, .slow_fraction = part};
  return s;
}

/// A protocol and how it does.
struct entry {
  std::string name;
  finish at;

  [[nodiscard]] double updates_a_second() const { return static_cast<double>(at.run.updates) / at.run.seconds; }
};

std::vector<entry> run_all(ground const& g, std::vector<std::pair<std::string, rules>> const& protocols) {
  std::vector<entry> all;
  text_table table = empty_table();
  table.head.emplace_back("updates a second");
  for (auto const& [name, p] : protocols) {
    all.push_back({name, g.run([&p = p](double) { return p; }, 1)});
    table.rows.push_back(row(name, all.back().at));
    table.rows.back().push_back(fmt::format("{:.0f}", all.back().updates_a_second()));
  }
  fmt::print("{}\n", table.to_string());
  return all;
}

}  // namespace

void reproduce_dssp(reproduce_options const& options) {
  constexpr std::uint32_t workers = 4;
  std::vector<std::pair<std::string, rules>> protocols{{"BSP", bsp{}}, {"ASP", asp{}}, {"DSSP, 3 to 15", dssp{}}};
  for (std::int64_t const s : {3, 6, 9, 12, 15})
    protocols.emplace_back(fmt::format("SSP, s = {}", s), ssp{.staleness = s});
  std::vector<entry> even, uneven;
  for (double const level : {1.0, 2.0}) {
    fmt::print("{}\n", level == 1 ? "Workers are equally fast." : "Half of the workers take twice as long.");
    ground const g(options, workers, slowed(workers, 0.5, level));
    (level == 1 ? even : uneven) = run_all(g, protocols);
  }
  double mean = 0;
  for (std::size_t i = 3; i < uneven.size(); ++i) mean += uneven[i].at.seconds() / 5;
  double const bulk = uneven[0].at.seconds(), own = uneven[2].at.seconds(), free = uneven[1].at.seconds();
  claims said;
  said.add(
      own < mean && own < bulk && own < 1.1 * free,
      "With workers of two speeds DSSP converges much earlier than SSP, averaged over s = 3 to 15, and BSP, and like "
      "ASP (abstract and §V, ResNet on CIFAR-100).",
      fmt::format("it needs {}, SSP {} on average, BSP {}, ASP {}.", show_seconds(own), show_seconds(mean),
                  show_seconds(bulk), show_seconds(free)));
  said.add(even[2].at.seconds() < even[0].at.seconds(),
           "With workers that are alike it converges faster than BSP (abstract).",
           fmt::format("it needs {}, BSP {}.", show_seconds(even[2].at.seconds()), show_seconds(even[0].at.seconds())));
  said.print();
}

void reproduce_vap(reproduce_options const& options) {
  constexpr std::uint32_t workers = 8;
  constexpr std::int64_t clocks = 600;
  ground const g(options, workers, slowed(workers, 0.25, 2));
  double const best = g.run([](double) { return asp{}; }, 1).run.learning_rate, rate = 4 * best;
  text_table table{.head = {"", "waiting", "updates a second", "loss in the end", "its variance"}, .rows = {}};
  std::vector<run_result> all;
  auto const add = [&](std::string name, rules const& p) {
    run_result const& r = all.emplace_back(g.run_at(rate, p, clocks, 1).run);
    double const spent = r.compute_seconds + r.wait_seconds + r.send_seconds;
    table.rows.push_back({std::move(name), show_share(r.wait_seconds / spent),
                          fmt::format("{:.0f}", static_cast<double>(r.updates) / r.seconds),
                          fmt::format("{:.5f}", r.final_loss), fmt::format("{:.2g}", r.var_obj)});
  };
  std::vector<double> const limits{0, 0.25, 0.5, 1, 2, 4, 16};
  for (double const limit : limits) add(fmt::format("VAP, v_0 = {} rates", limit), vap{.first = limit * rate});
  add("ASP", asp{});
  fmt::print("One server, {} clocks at a rate of {:.3g}, 4 times the best of ASP.\n\n{}", clocks, rate,
             table.to_string());
  run_result const &tight = all.front(), &loose = all[limits.size() - 1], &free = all.back();
  claims said;
  said.add(tight.var_obj < loose.var_obj && loose.var_obj <= 1.5 * free.var_obj,
           "The bound on values bounds the variance of the parameters: the smaller v_0, the smaller it is "
           "(theorems on VAP).",
           fmt::format(
               "the objective's variance is {:.2g} with v_0 = 0, {:.2g} with {} rates, {:.2g} under ASP, and it ends "
               "at {:.4g}, {:.4g} and {:.4g}.",
               tight.var_obj, loose.var_obj, limits.back(), free.var_obj, tight.final_loss, loose.final_loss,
               free.final_loss));
  said.add(tight.wait_seconds > 2 * loose.wait_seconds,
           "To keep the bound strictly costs waiting, as strong consistency does.",
           fmt::format("workers wait {} of the time with v_0 = 0, {} with {} rates.", table.rows.front()[1],
                       table.rows[limits.size() - 1][1], limits.back()));
  said.print();
}

void reproduce_psp(reproduce_options const& options) {
  constexpr std::uint32_t workers = 32;
  auto const pssp = [&](std::int64_t s, std::uint32_t sample) {
    return psp{.staleness = s, .sample = sample, .of = workers, .seed = options.seed};
  };
  std::vector<std::pair<std::string, rules>> const protocols{{"BSP", bsp{}},
                                                             {"SSP, s = 4", ssp{.staleness = 4}},
                                                             {"ASP", asp{}},
                                                             {"pBSP, 1 of the others", pssp(0, 1)},
                                                             {"pBSP, 3 of the others", pssp(0, 3)},
                                                             {"pSSP, s = 4, 1 of the others", pssp(4, 1)}};
  std::vector<entry> even, uneven;
  for (double const part : {0.0, 0.25}) {
    fmt::print("{:.0f}% of the workers take 4 times as long.\n", 100 * part);
    ground const g(options, workers, slowed(workers, part, 4));
    (part == 0 ? even : uneven) = run_all(g, protocols);
  }
  auto const left = [&](std::size_t i) { return uneven[i].updates_a_second() / even[i].updates_a_second(); };
  claims said;
  said.add(
      left(3) > 1.2 * left(0) && left(5) > 1.2 * left(1),
      "Slow workers hold up those of BSP and SSP, and much less those that look at a sample (evaluation, progress).",
      fmt::format("of the updates a second {:.0f}% are left under BSP and {:.0f}% under pBSP with a sample of 1, "
                  "{:.0f}% under SSP and {:.0f}% under pSSP, {:.0f}% under ASP.",
                  100 * left(0), 100 * left(3), 100 * left(1), 100 * left(5), 100 * left(2)));
  double const sampled = std::min(uneven[3].at.seconds(), uneven[5].at.seconds());
  said.add(sampled < uneven[0].at.seconds() && sampled < uneven[1].at.seconds() && sampled < uneven[2].at.seconds(),
           "\"Comparing to\" BSP, SSP and ASP, \"the proposed solution effectively improves both the convergence speed "
           "and the scalability of the SGD algorithm\" (abstract).",
           fmt::format("to the target pBSP and pSSP with a sample of 1 need {} and {}; BSP {}, SSP {}, ASP {}.",
                       show_seconds(uneven[3].at.seconds()), show_seconds(uneven[5].at.seconds()),
                       show_seconds(uneven[0].at.seconds()), show_seconds(uneven[1].at.seconds()),
                       show_seconds(uneven[2].at.seconds())));
  said.print();
}

}  // namespace rubato::bench
