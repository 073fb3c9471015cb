// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 5 and Table 2 of the FlexPS paper: an SVM by SGD with batches of one size, its degree found while it
// runs, beside the best one and one drawn at random (§7.1).

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/flexps_schemes.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {
namespace {

using namespace pvldb18;

struct published {
  double longer;  ///< Auto's time over Optimal's, less 1
  double worker_seconds[3];
};

void run_set(shape const& s, double batch, published const& paper, reproduce_options const& options,
             claims& said) {
  experiment const e(s, options);
  constant_batch const c = measure_constant_batch(e, batch, {.probe = 10, .first = machines}, options.seed);
  fmt::print("{}\nBatches of {:.2g}%: {:.0f} iterations.\n", s.description(), 100 * batch, c.iterations);
  text_table t{.head = {std::string(s.name), "workers", "time", "of Optimal's", "worker time", "paper"},
               .rows = {}};
  auto const row = [&](std::string const& name, std::string const& workers, cost const& x, double theirs) {
    t.rows.push_back({name, workers, show_seconds(x.seconds), show_ratio(x.seconds / c.optimal.seconds),
                      fmt::format("{:.0f} s", x.worker_seconds), fmt::format("{:.0f} s", theirs)});
  };
  row("Optimal", std::to_string(c.best), c.optimal, paper.worker_seconds[0]);
  row("Auto", std::to_string(c.found), c.automatic, paper.worker_seconds[1]);
  row("Auto from 1 worker", std::to_string(c.found_from_one), c.from_one, 0);
  t.rows.back().back() = "";
  row("Random", "20 to 240", c.random, paper.worker_seconds[2]);
  fmt::print("{}\n", t.to_string());
  std::string const name(s.name);
  double const longer = c.automatic.seconds / c.optimal.seconds - 1;
  double const shorter = 1 - c.automatic.seconds / c.random.seconds;
  said.add(
      longer <= 0.12,
      fmt::format("{}: Auto takes {:.0f}% longer than Optimal (aim: 12% at most).", name, 100 * paper.longer),
      fmt::format("{:.1f}%.", 100 * longer));
  said.add(shorter > 0.45, name + ": over 45% less than Random.", fmt::format("{:.0f}%.", 100 * shorter));
  said.add(c.automatic.worker_seconds < 1.2 * c.optimal.worker_seconds &&
               c.automatic.worker_seconds < 0.5 * c.random.worker_seconds,
           name + ": worker time like Optimal's, far less than Random's.",
           fmt::format("{:.2f}x and {:.2f}x.", c.automatic.worker_seconds / c.optimal.worker_seconds,
                       c.automatic.worker_seconds / c.random.worker_seconds));
}

}  // namespace

void reproduce_flexps_figure5(reproduce_options const& options) {
  introduce("Figure 5 and Table 2");
  claims said;
  run_set(webspam(), 0.01, {0.11, {912, 999, 7609}}, options, said);
  run_set(kdd(), 0.001, {0.12, {9448, 10384, 36903}}, options, said);
  said.print();
}

}  // namespace rubato::bench
