// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// How good the commit rate is that ADSP's online search (003 Alg. 1) finds: the time to the target
// beside that of the best fixed rate, found by trying all.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/adsp.hpp"
#include "bench/reproduce/registry.hpp"

namespace rubato::bench {
namespace {

using namespace aaai20;

constexpr std::uint64_t draws = 10;
constexpr int rates_tried = 5;

/// The rates kept after each search: " 1? 3 2". A last search may not have come to its end.
std::string found_rates(run_result const& r) {
  std::string text;
  for (pace_decision const& d : r.pace_changes)
    if (d.reason == "no faster" || d.reason == "undecided")
      text += fmt::format(" {}{}", d.value, d.reason == "undecided" ? "?" : "");
  return text;
}

void run_all(experiment& e, double rate) {
  e.seeds = draws;
  std::vector<outcome> fixed;
  for (int r = 1; r <= rates_tried; ++r)
    fixed.push_back(e.measure(e.choice("adsp:" + std::to_string(r)), rate));
  outcome const searched = e.measure(e.choice("adsp"), rate);
  outcome const& best = *std::ranges::min_element(fixed, {}, &outcome::seconds);
  std::vector<outcome> all = fixed;
  all.push_back(searched);
  std::vector<std::vector<std::string>> more;
  for (outcome const& o : all)
    more.push_back({fmt::format("{:.2f}", o.seconds() / best.seconds())});
  fmt::print("{}", table_of(all, {"to the best"}, more).to_string());
  fmt::print("Rates kept, search by search (? undecided):");
  for (run_result const& r : searched.runs) fmt::print(" |{}", found_rates(r));
  double const ratio = searched.seconds() / best.seconds();
  fmt::print(
      "\nWith the search the median of {} runs takes {:.2f} times as long as at R = {}: {} the "
      "1.2 that are aimed at.\n\n",
      draws, ratio, best.label, ratio <= 1.2 ? "within" : "beyond");
}

}  // namespace

void reproduce_adsp_search(reproduce_options const& options) {
  material data = material::images(options);
  experiment e(data, ec2(18), options);
  introduce("The search (Alg. 1)", data, e.here);
  run_all(e, e.tuned_rate(e.choice("adsp")));
}

}  // namespace rubato::bench
