// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 11 of "Heterogeneity-aware Distributed Parameter Servers" (SIGMOD 2017): the impact of
// staleness (§7.4.3), each protocol at the rate that suits s = 3.

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/sigmod17.hpp"

namespace rubato::bench {
namespace {

using namespace sigmod17;

constexpr std::array<std::int64_t, 4> stalenesses = {3, 10, 20, 40};
constexpr std::size_t n = stalenesses.size();

/// How far the objective is above the lowest at each staleness.
std::string ends(sensitivity const& setting, std::vector<trial> const& trials, std::size_t i) {
  std::string text(three()[i].entry->name);
  text += " ends ";
  for (std::size_t k = 0; k < n; ++k)
    text += (k == 0 ? "" : ", ") + show_number(trials[i * n + k].found.min_obj - setting.lowest());
  return text + " above the lowest";
}

/// How much higher the objective ends with the greatest staleness.
double growth(std::vector<trial> const& trials, std::size_t i) {
  return trials[i * n + n - 1].found.min_obj - trials[i * n].found.min_obj;
}

std::string clock_list(sensitivity const& setting, std::vector<trial> const& trials,
                       std::size_t i) {
  std::string text;
  for (std::size_t k = 0; k < n; ++k)
    text += (k == 0 ? "" : ", ") + show_clocks(trials[i * n + k].found, setting.job.clocks);
  return text;
}

/// Whether protocol `i` needs fewer clocks than protocol `j` at some staleness and more at none.
bool sooner(sensitivity const& setting, std::vector<trial> const& trials, std::size_t i,
            std::size_t j) {
  auto const clocks = [&](trial const& t) {
    return t.found.clocks.value_or(static_cast<std::size_t>(setting.job.clocks) + 1);
  };
  bool fewer = false;
  for (std::size_t k = 0; k < n; ++k) {
    if (clocks(trials[i * n + k]) > clocks(trials[j * n + k])) return false;
    fewer |= clocks(trials[i * n + k]) < clocks(trials[j * n + k]);
  }
  return fewer;
}

}  // namespace

void reproduce_sigmod17_figure11(reproduce_options const& options) {
  sensitivity setting(options);
  std::vector<trial> trials;
  std::vector<std::string> values;
  for (protocol_choice p : three()) {
    double const rate = setting.moderate_rate(p);
    for (std::int64_t const s : stalenesses) {
      p.with.staleness = s;
      trials.push_back(setting.run(p, rate));
      values.push_back(std::to_string(s));
    }
  }
  fmt::print("\n{}", setting.table("s", values, trials).to_string());
  claims said;
  constexpr double modest = 0.1;  // of SSP's growth
  said.add(growth(trials, 0) > 0, "SSP's min_obj grows significantly with s.",
           ends(setting, trials, 0) + '.');
  for (std::size_t i : {1U, 2U})
    said.add(growth(trials, i) < modest * growth(trials, 0),
             std::string(three()[i].entry->name) + "'s grows modestly.",
             ends(setting, trials, i) + '.');
  said.add(sooner(setting, trials, 2, 1),
           "DynSGD gets to the threshold in fewer clocks than ConSGD.",
           "dyn_sgd " + clock_list(setting, trials, 2) + "; con_sgd " +
               clock_list(setting, trials, 1) + '.');
  said.print();
}

}  // namespace rubato::bench
