// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Table 4 of "Heterogeneity-aware Distributed Parameter Servers" (SIGMOD 2017): the global learning
// rate of ConSGD at its best local rate (§7.4.5).

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/sigmod17.hpp"

namespace rubato::bench {
namespace {

using namespace sigmod17;

/// The paper's grid, and 1/M last.
std::vector<std::optional<double>> grid() {
  std::vector<std::optional<double>> rates;
  for (int tenth = 10; tenth >= 1; --tenth) rates.push_back(tenth / 10.0);
  rates.push_back(0.01);
  rates.push_back(std::nullopt);
  return rates;
}

/// Fewer clocks to the target, or the lower end where they are the same.
bool better(convergence const& a, convergence const& b) {
  if (a.clocks.has_value() != b.clocks.has_value()) return a.clocks.has_value();
  if (a.clocks != b.clocks) return *a.clocks < *b.clocks;
  return a.min_obj < b.min_obj;
}

struct paper_row {
  char const* min_obj;
  char const* deviation;
  char const* clocks;
};

paper_row of_paper(std::optional<double> global_rate) {
  if (!global_rate) return {"0.01693", "0.0016", "14"};
  if (*global_rate == 0.1) return {"0.01657", "0.0022", "11"};
  return {"", "", ""};
}

/// ConSGD with each global rate, at one local rate.
struct grid_result {
  std::vector<trial> trials;  ///< in the order of `grid`
  std::size_t best = 0;

  [[nodiscard]] trial const& heuristic() const { return trials.back(); }
};

grid_result run_grid(sensitivity& setting, protocol_choice con_sgd, double rate) {
  grid_result out;
  for (std::optional<double> const global_rate : grid()) {
    con_sgd.with.global_rate = global_rate;
    out.trials.push_back(setting.run(con_sgd, rate));
    if (better(out.trials.back().found, out.trials[out.best].found))
      out.best = out.trials.size() - 1;
  }
  return out;
}

std::string name_of_rate(std::optional<double> global_rate) {
  return global_rate ? fmt::format("{}", *global_rate) : "1/M";
}

void print_grid(sensitivity const& setting, grid_result const& mine) {
  text_table t{.head = {"global rate", "min_obj", "paper", "above lowest", "deviation", "paper",
                        "clocks", "paper"},
               .rows = {}};
  auto const rates = grid();
  for (std::size_t i = 0; i < rates.size(); ++i) {
    auto const c = setting.cells(mine.trials[i].found);
    paper_row const theirs = of_paper(rates[i]);
    t.rows.push_back({name_of_rate(rates[i]), c[0], theirs.min_obj, c[1], c[2], theirs.deviation,
                      c[3], theirs.clocks});
  }
  fmt::print("\ncon_sgd(3) at rate {}\n{}", show_number(mine.heuristic().rate), t.to_string());
}

/// Which global rate is best, and what 1/M and the paper's best one need.
std::string show_best(sensitivity const& setting, grid_result const& mine) {
  std::int64_t const most = setting.job.clocks;
  auto const rates = grid();
  auto const paper_best = std::ranges::find(rates, std::optional<double>(0.1)) - rates.begin();
  return fmt::format("{} is best, with {}; 0.1 needs {}, 1/M {}.", name_of_rate(rates[mine.best]),
                     show_clocks(mine.trials[mine.best].found, most),
                     show_clocks(mine.trials[static_cast<std::size_t>(paper_best)].found, most),
                     show_clocks(mine.heuristic().found, most));
}

bool above_heuristic(sensitivity const& setting, grid_result const& mine) {
  auto const best = grid()[mine.best];
  return best && *best > 1.0 / setting.job.workers;
}

/// Tests whether a greater global rate fails because the local one was tuned with 1/M.
void explain(sensitivity& setting, protocol_choice const& con_sgd, double rate) {
  grid_result const slower = run_grid(setting, con_sgd, rate / 4);
  print_grid(setting, slower);
  fmt::print("  At a quarter of its best rate: {} So it is {}for the local rate that 0.1 fails.\n",
             show_best(setting, slower), above_heuristic(setting, slower) ? "" : "not ");
}

}  // namespace

void reproduce_sigmod17_table4(reproduce_options const& options) {
  sensitivity setting(options);
  auto const [ssp, con_sgd, dyn_sgd] = three();
  double const rate = setting.best_rate(con_sgd);
  grid_result const mine = run_grid(setting, con_sgd, rate);
  trial const dyn = setting.run(dyn_sgd, setting.best_rate(dyn_sgd));
  print_grid(setting, mine);
  convergence const& best = mine.trials[mine.best].found;
  claims said;
  said.add(above_heuristic(setting, mine),
           "The best global rate, 0.1, is above 1/M, and needs 11 clocks to its 14.",
           show_best(setting, mine));
  said.add(better(dyn.found, best), "DynSGD is faster still, with 6.",
           fmt::format("dyn_sgd(3) {}, con_sgd(3) at its best {}.",
                       show_clocks(dyn.found, setting.job.clocks),
                       show_clocks(best, setting.job.clocks)));
  said.print();
  if (!above_heuristic(setting, mine)) explain(setting, con_sgd, rate);
}

}  // namespace rubato::bench
