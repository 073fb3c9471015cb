// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figures 20 and 21 of the Hop paper (ASPLOS 2019): three graphs of 8 workers unevenly on 3
// machines (§7.3.6).

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/hop.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/topologies.hpp"

namespace rubato::bench {
namespace {

using namespace asplos19;

struct drawn_graph {
  char const* spec;
  double gap;  ///< the paper's spectral gap
};
constexpr std::array graphs = {drawn_graph{"ring-based", 0.6667},
                               drawn_graph{"hierarchical:4,2,2", 0.2682},
                               drawn_graph{"hierarchical-two:4,2,2", 0.2688}};
std::vector<std::uint32_t> const machines = {4, 2, 2};

double gap_of(drawn_graph const& g) {
  return mixing_matrix::automatic(parse_graph(g.spec, 8)).spectral_gap();
}

void print_gaps() {
  fmt::print(
      "8 workers on 3 machines, of which the paper's text only says that it is uneven: 4, 2 and 2 "
      "here. Neither the graphs' edges between machines nor their weights are in the text; weights "
      "here are uniform where the graph is regular, else Metropolis'.\n\n");
  text_table t{.head = {"spectral gap", "ours", "paper"}, .rows = {}};
  for (drawn_graph const& g : graphs)
    t.rows.push_back({g.spec, fmt::format("{:.4f}", gap_of(g)), fmt::format("{:.4f}", g.gap)});
  fmt::print("{}", t.to_string());
}

void judge(std::string const& how, std::vector<outcome> const& all) {
  claims said;
  said.add(is_faster(all[1], all[0]) && is_faster(all[2], all[0]),
           how + ": both hierarchical graphs perform better than the ring-based one.",
           fmt::format("{} and {} as fast.", show_speedup(all[1], all[0]),
                       show_speedup(all[2], all[0])));
  double const one = all[1].iterations() / all[0].iterations();
  double const two = all[2].iterations() / all[0].iterations();
  said.add(one < 1.15 && two < 1.15,
           how + ": the iterations that are needed do not differ significantly.",
           fmt::format("{} and {} those of the ring-based graph.", show_ratio(one),
                       show_ratio(two)));
  said.print();
}

void run_graphs(task& t, double sends_in_a_step, std::string const& how) {
  std::vector<outcome> all;
  for (drawn_graph const& g : graphs)
    all.push_back(t.measure(
        {.graph = g.spec, .machines = machines, .sends_in_a_step = sends_in_a_step}, g.spec));
  fmt::print("\n{}\n", how);
  std::vector<column> more = {
      {"faster", [&](std::size_t row) { return show_speedup(all[row], all[0]); }}};
  for (column& c : curves_by_time(all, all[0])) more.push_back(std::move(c));
  fmt::print("{}", table_of(all, more).to_string());
  judge(how, all);
}

}  // namespace

void reproduce_hop_figure20(reproduce_options const& options) {
  introduce("Figure 20");
  task t = task::network(options);
  fmt::print("{}", t.description());
  print_gaps();
  run_graphs(t, setting{}.sends_in_a_step, "A mini-batch takes as long as 6 updates");
  // Where it does, who sends how much from machine to machine hardly shows.
  run_graphs(t, 1, "A mini-batch takes as long as 1 update");
}

void reproduce_hop_figure21(reproduce_options const&) {
  fmt::print(
      "Figure 21 of \"Hop: Heterogeneity-Aware Decentralized Training\", ASPLOS 2019.\n");
  print_gaps();
}

}  // namespace rubato::bench
