// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 3 of the ADSP paper (AAAI 2020): what the commit rate does to the convergence time and to
// the implicit momentum (§4.1), all else being equal.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/adsp.hpp"
#include "bench/reproduce/registry.hpp"

namespace rubato::bench {
namespace {

using namespace aaai20;

constexpr std::array commit_rates = {1, 2, 3, 4, 6, 8, 12, 16, 24};

void run_cluster(char const* title, material& data, setting const& s,
                 reproduce_options const& options) {
  experiment e(data, s, options);
  double const rate = e.tuned_rate(e.choice("adsp:4"));
  std::vector<outcome> all;
  std::vector<std::vector<std::string>> more;
  for (int const r : commit_rates) {
    all.push_back(e.measure(e.choice("adsp:" + std::to_string(r)), rate));
    more.push_back({fmt::format("{:.4f}", all.back().median().implicit_momentum)});
  }
  fmt::print("{}\n{}", title, table_of(all, {"implicit momentum"}, more).to_string());
  auto const best = std::ranges::min_element(all, {}, &outcome::seconds);
  bool const inside = best != all.begin() && best + 1 != all.end();
  bool const falls = std::ranges::is_sorted(
      all, std::ranges::greater{}, [](outcome const& o) { return o.median().implicit_momentum; });
  claims said;
  said.add(
      inside, "With a greater rate the convergence time falls at first, and then it grows.",
      fmt::format("{} at {}, {} at {} and {} at {}.", show_time(all.front()), all.front().label,
                  show_time(*best), best->label, show_time(all.back()), all.back().label));
  said.add(falls, "The implicit momentum falls with the rate.",
           fmt::format("from {:.4f} to {:.4f}.", all.front().median().implicit_momentum,
                       all.back().median().implicit_momentum));
  said.print();
  fmt::print("\n");
}

}  // namespace

void reproduce_adsp_figure3(reproduce_options const& options) {
  material data = material::images(options);
  introduce("Figure 3", data, one_one_three());
  fmt::print("adsp(R): R commits per check period. One learning rate for all, tuned at R = 4.\n\n");
  run_cluster("3 workers, times of a mini-batch 1 : 1 : 3, as in the paper", data, one_one_three(),
              options);
  run_cluster("18 EC2 instances", data, ec2(18), options);
}

}  // namespace rubato::bench
