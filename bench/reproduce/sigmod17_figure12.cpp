// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 12 of "Heterogeneity-aware Distributed Parameter Servers" (SIGMOD 2017): the impact of the
// number of workers (§7.4.4), each protocol at the rate that suits 30.

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/sigmod17.hpp"

namespace rubato::bench {
namespace {

using namespace sigmod17;

constexpr std::array<std::uint32_t, 3> workers = {5, 30, 100};
/// Of SSP; of the others the paper says that there is "no significant growth".
constexpr std::array<double, 3> paper_min_obj = {0.11234, 0.02294, 0.07398};
constexpr std::array<double, 3> paper_deviation = {0, 0.00529, 0.01722};

double above(sensitivity const& setting, trial const& t) {
  return t.found.min_obj - setting.lowest();
}

/// How far above the lowest a protocol's objective ends with 5, 30 and 100 workers.
std::string ends(sensitivity const& setting, std::vector<trial> const& trials, std::size_t i) {
  return fmt::format("{}, {}, {} above the lowest.", show_number(above(setting, trials[3 * i])),
                     show_number(above(setting, trials[3 * i + 1])),
                     show_number(above(setting, trials[3 * i + 2])));
}

void compare_ssp(claims& said, std::vector<trial> const& trials) {
  for (std::size_t k : {0U, 2U}) {
    double const ours = trials[k].found.min_obj / trials[1].found.min_obj;
    said.add(ours > 1,
             fmt::format("SSP's min_obj with {} workers is {} that with 30.", workers[k],
                         show_ratio(paper_min_obj[k] / paper_min_obj[1])),
             show_ratio(ours) + '.');
  }
  double const swing = trials[2].found.deviation / trials[1].found.deviation;
  said.add(swing > 1,
           fmt::format("SSP's objective swings {} as much with 100 workers.",
                       show_ratio(paper_deviation[2] / paper_deviation[1])),
           show_ratio(swing) + '.');
}

}  // namespace

void reproduce_sigmod17_figure12(reproduce_options const& options) {
  sensitivity setting(options);
  std::vector<trial> trials;
  std::vector<std::string> values;
  for (protocol_choice const& p : three()) {
    setting.job.workers = 30;
    double const rate = setting.moderate_rate(p);
    for (std::uint32_t const m : workers) {
      setting.job.workers = m;
      trials.push_back(setting.run(p, rate));
      values.push_back(std::to_string(m));
    }
  }
  fmt::print("\n{}", setting.table("workers", values, trials).to_string());
  claims said;
  compare_ssp(said, trials);
  constexpr double significant = 1.2;  // the paper has SSP at 3.2 times and more
  for (std::size_t i : {1U, 2U})
    said.add(trials[3 * i].found.min_obj < significant * trials[3 * i + 1].found.min_obj &&
                 trials[3 * i + 2].found.min_obj < significant * trials[3 * i + 1].found.min_obj,
             trials[3 * i].label + "'s min_obj does not grow significantly.",
             ends(setting, trials, i));
  said.print();
}

}  // namespace rubato::bench
