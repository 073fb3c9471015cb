// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Equation 2 of the Hop paper (ASPLOS 2019, §4.4): updates of different iterations, reduced with weights that go by
// their age, beside a plain average. The paper "found the latter performs slightly better" and shows no figure.

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/hop.hpp"
#include "bench/result/repeated.hpp"

namespace rubato::bench {
namespace {

using namespace asplos19;

constexpr std::uint64_t seeds = 11;

struct pair_of_rules {
  repeated weighted, plain;

  [[nodiscard]] bool arrived() const {
    return weighted.middle().seconds_to_target && plain.middle().seconds_to_target;
  }
  /// How many times as fast the weighted one is.
  [[nodiscard]] double gain() const { return plain.middle().counted_seconds() / weighted.middle().counted_seconds(); }
};

pair_of_rules measure(task& t, setting s, std::uint64_t first_seed) {
  pair_of_rules p;
  for (std::uint64_t k = 1; k <= seeds; ++k)
    for (bool const plainly : {false, true}) {
      s.plainly = plainly;
      (plainly ? p.plain : p.weighted).rounds.push_back(t.run(s, first_seed + k));
    }
  return p;
}

std::string show(run_result const& r) {
  return fmt::format("{}{}, {}", r.seconds_to_target ? "" : ">", show_seconds(r.counted_seconds()),
                     r.counted_steps() / r.workers);
}

std::string show(lead const& l) { return fmt::format("{} : {} (p {:.2g})", l.wins, l.losses, l.p_value); }

/// Of which sentences are made: over all settings of a task.
struct tally {
  std::size_t settings = 0, better = 0, decisive = 0, worse = 0;

  void add(pair_of_rules const& p) {
    ++settings;
    better += p.gain() > 1;
    decisive += lead_of(p.weighted, p.plain).p_value <= p_value_max;
    worse += lead_of(p.plain, p.weighted).p_value <= p_value_max;
  }
};

void run_task(task t, std::uint64_t seed) {
  fmt::print("\n{}", t.description());
  text_table table{.head = {"slowdown", "staleness", "weighted: time, iterations", "plain", "faster", "ahead : behind"},
                   .rows = {}};
  tally all;
  for (slowdown const slow : {slowdown::none, slowdown::random, slowdown::straggler})
    for (int const s : {2, 5}) {
      pair_of_rules const p =
          measure(t, {.protocol = fmt::format("hop_stale:{}", s), .slow = slow}, seed);
      table.rows.push_back({show_slowdown(slow), std::to_string(s), show(p.weighted.middle()), show(p.plain.middle()),
                            p.arrived() ? fmt::format("{:.3f}x", p.gain()) : "-",
                            show(lead_of(p.weighted, p.plain))});
      all.add(p);
    }
  fmt::print("{}", table.to_string());
  claims said;
  said.add(all.better > all.settings / 2 && all.decisive > all.worse,
           "An iteration-based weighted average performs slightly better than a simple one.",
           fmt::format("in {} of {} settings, decisive in {}; the plain one is decisively better in {}.", all.better,
                       all.settings, all.decisive, all.worse));
  said.print();
}

/// Whose gradients count, where nothing else differs.
void print_influence(std::uint64_t seed) {
  fmt::print(
      "\nWhere messages take no time: the part of the consensus that the 8 most influential workers of 16 make\n");
  text_table t{.head = {"slowdown", "staleness", "weighted", "plain"}, .rows = {}};
  for (slowdown const slow : {slowdown::random, slowdown::straggler})
    for (int const s : {2, 5}) {
      setting where{.protocol = fmt::format("hop_stale:{}", s), .slow = slow};
      std::string const weighted = show_share(timing_model(where, seed).upper_half);
      where.plainly = true;
      t.rows.push_back({show_slowdown(slow), std::to_string(s), weighted,
                        show_share(timing_model(where, seed).upper_half)});
    }
  fmt::print("{}", t.to_string());
}

}  // namespace

void reproduce_hop_equation2(reproduce_options const& options) {
  introduce("Equation 2 (weights by age, beside a plain average)");
  fmt::print(
      "The ring-based graph, max_ig 8; but {} seeds here, the same for both. Ahead: on how many the weighted average "
      "is sooner at the target, with the p of a two-sided sign test.\n",
      seeds);
  run_task(task::network(options), options.seed);
  run_task(task::classifier(options), options.seed);
  print_influence(options.seed);
}

}  // namespace rubato::bench
