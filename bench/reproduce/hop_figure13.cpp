// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 13 of the Hop paper (ASPLOS 2019): peers beside a parameter server (§7.3.2).

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/hop.hpp"

namespace rubato::bench {
namespace {

using namespace asplos19;

void run_task(task t) {
  fmt::print("\n{}", t.description());
  std::vector<outcome> const all = {
      t.measure({}, "peers"),
      t.measure({.slow = slowdown::random}, "peers, 6x at random"),
      t.measure({.protocol = "bsp"}, "BSP, one server"),
  };
  outcome const& server = all.back();
  std::vector<column> more = {{"faster than BSP", [&](std::size_t row) {
                                 return row < 2 ? show_speedup(all[row], server) : "";
                               }}};
  for (column& c : curves_by_time(all, server)) more.push_back(std::move(c));
  fmt::print("{}", table_of(all, more).to_string());
  constexpr double much = 1.5;
  claims said;
  for (std::size_t i = 0; i < 2; ++i)
    said.add(server.seconds() > much * all[i].seconds(),
             fmt::format("{}: {} converge much faster than BSP without slowdown.", t.name(),
                         all[i].label),
             show_speedup(all[i], server) + " as fast.");
  said.print();
}

}  // namespace

void reproduce_hop_figure13(reproduce_options const& options) {
  introduce("Figure 13");
  fmt::print("The server has a machine and a card of 1 Gbit/s to itself.\n");
  run_task(task::network(options));
  for (task& t : task::classifiers(options)) run_task(std::move(t));
}

}  // namespace rubato::bench
