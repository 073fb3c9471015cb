// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 10 of "Heterogeneity-aware Distributed Parameter Servers" (SIGMOD 2017): rates around the
// best one (§7.4.2).

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/sigmod17.hpp"

namespace rubato::bench {
namespace {

using namespace sigmod17;

constexpr std::array<double, 5> factors = {0.25, 0.5, 1, 2, 4};

/// How much a protocol suffers from a rate that is not the best.
struct robustness {
  int reached = 0;       ///< of the rates tried
  double worst_obj = 0;  ///< the greatest min_obj

  void add(convergence const& c) {
    constexpr double none = std::numeric_limits<double>::infinity();
    reached += c.clocks.has_value();
    worst_obj = std::max(worst_obj, c.min_obj == c.min_obj ? c.min_obj : none);
  }
  [[nodiscard]] std::string rates() const {
    return fmt::format("at {} of {} rates", reached, factors.size());
  }
};

}  // namespace

void reproduce_sigmod17_figure10(reproduce_options const& options) {
  sensitivity setting(options);
  std::vector<trial> trials;
  std::vector<std::string> values;
  std::array<robustness, 3> found;
  auto const protocols = three();
  for (std::size_t i = 0; i < protocols.size(); ++i) {
    double const best = setting.best_rate(protocols[i]);
    for (double const factor : factors) {
      trials.push_back(setting.run(protocols[i], factor * best));
      values.push_back(fmt::format("{}x", factor));
      found[i].add(trials.back().found);
    }
  }
  fmt::print("\n{}", setting.table("best rate", values, trials).to_string());
  claims said;
  for (std::size_t i : {1U, 2U}) {
    std::string const label = protocols[i].label();
    said.add(found[i].reached > found[0].reached,
             fmt::format("A moderate change of the rate harms SSP severely, {} hardly.", label),
             fmt::format("ssp(3) gets to the target {}, {} {}.", found[0].rates(), label,
                         found[i].rates()));
    said.add(
        found[i].worst_obj < found[0].worst_obj,
        fmt::format("Where the rate varies slightly {} converges steadily, SSP does not.", label),
        fmt::format("at its worst rate ssp(3) ends at {}, {} at {}.",
                    show_number(found[0].worst_obj), label, show_number(found[i].worst_obj)));
  }
  said.print();
}

}  // namespace rubato::bench
