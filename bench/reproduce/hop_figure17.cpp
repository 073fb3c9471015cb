// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 17 of the Hop paper (ASPLOS 2019): staleness beside a backup worker, under random slowdown
// (§7.3.4).

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/hop.hpp"

namespace rubato::bench {

void reproduce_hop_figure17(reproduce_options const& options) {
  using namespace asplos19;
  introduce("Figure 17");
  task t = task::network(options);
  fmt::print("The ring-based graph, max_ig 8.\n\n{}", t.description());
  setting s{.slow = slowdown::random};
  std::vector<outcome> all;
  for (char const* const name : {"hop", "hop_backup:1", "hop_stale:5"}) {
    s.protocol = name;
    all.push_back(t.measure(s));
  }
  outcome const &standard = all[0], &backup = all[1], &stale = all[2];
  std::vector<column> more = {
      {"faster", [&](std::size_t row) { return show_speedup(all[row], standard); }}};
  for (column& c : curves_by_time(all, standard)) more.push_back(std::move(c));
  fmt::print("{}", table_of(all, more).to_string());
  claims said;
  said.add(is_faster(stale, standard) && is_faster(backup, standard),
           "Both converge faster than the standard protocol.",
           fmt::format("{} with staleness, {} with a backup worker.", show_speedup(stale, standard),
                       show_speedup(backup, standard)));
  double const ratio = stale.seconds() / backup.seconds();
  said.add(ratio > 0.8 && ratio < 1.25, "Their speedups are similar.",
           fmt::format("staleness takes {} a backup worker's time.", show_ratio(ratio)));
  said.print();
}

}  // namespace rubato::bench
