// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 12 of the Hop paper (ASPLOS 2019): three graphs with and without random slowdown (§7.3.1).

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/hop.hpp"

namespace rubato::bench {
namespace {

using namespace asplos19;

constexpr std::array graphs = {"ring", "ring-based", "double-ring"};

/// How many times as long the slowed runs take; `all` has them after those without.
using factors = std::array<double, graphs.size()>;

void judge(std::string const& name, factors const& f) {
  claims said;
  std::string const ours = fmt::format("{} {}, {} {}, {} {} the time.", graphs[0], show_ratio(f[0]),
                                       graphs[1], show_ratio(f[1]), graphs[2], show_ratio(f[2]));
  said.add(f[0] > 1.1 && f[1] > 1.1 && f[2] > 1.1,
           name + ": none of the graphs is immune to the slowdown.", ours);
  said.add(f[0] < f[1] && f[1] < f[2], name + ": sparser graphs suffer less.", ours);
  said.print();
}

void run_task(task t) {
  fmt::print("\n{}", t.description());
  std::vector<outcome> all;
  for (char const* const graph : graphs)
    for (slowdown const slow : {slowdown::none, slowdown::random})
      all.push_back(t.measure({.graph = graph, .slow = slow},
                              fmt::format("{}, slowdown {}", graph, show_slowdown(slow))));
  auto const ratio = [&](std::size_t row, double (outcome::*of)() const) {
    return (all[row].*of)() / (all[row - row % 2].*of)();
  };
  std::vector<column> more = {
      {"slowed", [&](std::size_t row) { return show_ratio(ratio(row, &outcome::seconds)); }},
      {"iteration", [&](std::size_t row) {
         return show_ratio(ratio(row, &outcome::iteration_seconds));
       }}};
  for (column& c : curves_by_time(all, all[2])) more.push_back(std::move(c));
  fmt::print("{}", table_of(all, more).to_string());
  factors f{};
  for (std::size_t i = 0; i < f.size(); ++i) f[i] = all[2 * i + 1].seconds() / all[2 * i].seconds();
  judge(t.name(), f);
}

}  // namespace

void reproduce_hop_figure12(reproduce_options const& options) {
  introduce("Figure 12");
  run_task(task::network(options));
  for (task& t : task::classifiers(options)) run_task(std::move(t));
}

}  // namespace rubato::bench
