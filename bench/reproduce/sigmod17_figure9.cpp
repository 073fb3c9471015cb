// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figures 8 and 9 of "Heterogeneity-aware Distributed Parameter Servers" (SIGMOD 2017): how well
// and how fast each protocol converges at its best rate, fixed and decayed (§7.4.1).

#include <array>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/sigmod17.hpp"

namespace rubato::bench {
namespace {

using namespace sigmod17;

/// What the text of §7.4.1 says of SSP, ConSGD and DynSGD, in its own numbers.
struct paper_block {
  char const* title;
  double decay;
  char const* rate[3];
  char const* min_obj[3];
  char const* deviation[3];
  char const* clocks[3];
  double min_obj_ratio[3];    ///< SSP's over each one's
  double deviation_ratio[3];  ///< the same
  char const* clock_claims[2];
};
constexpr std::array paper = {
    paper_block{"fixed rate",
                0,
                {"5e-06", "0.0003", "0.0003"},
                {"0.02294", "0.01663", "0.01602"},
                {"1", "1/3.5", "1/3.5"},
                {"> 50", "14", "6"},
                {1, 1 / (1 - 0.2751), 1 / (1 - 0.3017)},
                {1, 3.5, 3.5},
                {"SSP does not get to the threshold.", "DynSGD needs 6 clocks, ConSGD 14."}},
    paper_block{"rate decayed as 1/sqrt(0.2*clock + 1)",
                0.2,
                {"?", "?", "?"},
                {"1", "1/1.123", "1/1.197"},
                {"1", "1/4.9", "1/7.17"},
                {"21", "?", "7"},
                {1, 1.1231, 1.1967},
                {1, 4.9, 7.17},
                {"SSP needs 21 clocks, DynSGD 7.", nullptr}},
};

using three_trials = std::vector<trial>;

three_trials run_best(sensitivity& setting, double decay) {
  setting.job.decay = decay;
  three_trials out;
  for (protocol_choice const& p : three()) out.push_back(setting.run(p, setting.best_rate(p)));
  return out;
}

void print_block(sensitivity const& setting, paper_block const& block, three_trials const& mine) {
  text_table t{.head = {"", "rate", "paper", "min_obj", "above lowest", "paper min_obj",
                        "deviation", "paper", "clocks", "paper"},
               .rows = {}};
  for (std::size_t i = 0; i < mine.size(); ++i) {
    auto const c = setting.cells(mine[i].found);
    t.rows.push_back({mine[i].label, show_number(mine[i].rate), block.rate[i], c[0], c[1],
                      block.min_obj[i], c[2], block.deviation[i], c[3], block.clocks[i]});
  }
  fmt::print("\n{}\n{}", block.title, t.to_string());
}

/// SSP beside the protocol `i`.
void compare_ends(claims& said, paper_block const& block, three_trials const& mine, std::size_t i) {
  convergence const& ssp = mine[0].found;
  convergence const& other = mine[i].found;
  said.add(
      ssp.min_obj > other.min_obj,
      fmt::format("SSP's min_obj is {} {}'s.", show_ratio(block.min_obj_ratio[i]), mine[i].label),
      fmt::format("{}, or {} above it.", show_ratio(ssp.min_obj / other.min_obj),
                  show_number(ssp.min_obj - other.min_obj)));
  said.add(ssp.deviation > other.deviation,
           fmt::format("SSP's objective swings {} as much as {}'s.",
                       show_ratio(block.deviation_ratio[i]), mine[i].label),
           show_ratio(ssp.deviation / other.deviation) + '.');
}

/// Tests whether it is for its greater rate that a protocol swings more than SSP.
void explain_swing(sensitivity& setting, three_trials const& mine, std::size_t i) {
  if (mine[0].found.deviation > mine[i].found.deviation) return;
  trial const half = setting.run(three()[i], mine[i].rate / 2);
  bool const calmer = half.found.deviation < mine[0].found.deviation;
  fmt::print("  {} at half its best rate swings by {}, {} than SSP: it is {} the rate.\n",
             half.label, show_number(half.found.deviation), calmer ? "less" : "more",
             calmer ? "for" : "not for");
}

std::int64_t clocks_or(convergence const& c, std::int64_t most) {
  return c.clocks ? static_cast<std::int64_t>(*c.clocks) : most + 1;
}

void compare_speed(claims& said, sensitivity const& setting, paper_block const& block,
                   three_trials const& mine) {
  std::int64_t const most = setting.job.clocks;
  auto const clocks = [&](std::size_t i) { return clocks_or(mine[i].found, most); };
  auto const show = [&](std::size_t i) {
    return mine[i].label + ' ' + show_clocks(mine[i].found, most);
  };
  bool const ssp_fails = block.decay == 0;
  said.add(ssp_fails ? clocks(0) > most : clocks(0) > clocks(2), block.clock_claims[0],
           show(0) + (ssp_fails ? "." : ", " + show(2) + '.'));
  if (block.clock_claims[1] != nullptr)
    said.add(clocks(2) < clocks(1), block.clock_claims[1], show(2) + ", " + show(1) + '.');
}

}  // namespace

void reproduce_sigmod17_figure9(reproduce_options const& options) {
  sensitivity setting(options);
  for (paper_block const& block : paper) {
    three_trials const mine = run_best(setting, block.decay);
    print_block(setting, block, mine);
    claims said;
    for (std::size_t i : {1U, 2U}) compare_ends(said, block, mine, i);
    compare_speed(said, setting, block, mine);
    said.print();
    for (std::size_t i : {1U, 2U}) explain_swing(setting, mine, i);
  }
}

}  // namespace rubato::bench
