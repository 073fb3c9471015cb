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
constexpr std::array momenta_swept = {0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99};

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

/// (c): the momentum of Equation 2 as one that the server has, where every commit is a step and all wait.
void run_momenta(material& data, reproduce_options const& options) {
  experiment e(data, one_one_three(), options);
  double const rate = e.tuned_rate(e.choice("bsp"));
  std::vector<outcome> all;
  for (double const mu : momenta_swept) {
    e.here.with.global_momentum = mu;
    all.push_back(e.measure(e.choice("bsp"), rate));
    all.back().label = fmt::format("momentum {}", mu);
  }
  fmt::print("(c) An explicit momentum, BSP, 3 workers, a rate tuned without momentum\n{}", table_of(all).to_string());
  auto const best = std::ranges::min_element(all, {}, &outcome::seconds);
  claims said;
  said.add(best != all.begin() && best + 1 != all.end(), "There is a best momentum between none and much.",
           fmt::format("{} with none, {} with {}, {} with {}.", show_time(all.front()), show_time(*best), best->label,
                       show_time(all.back()), all.back().label));
  said.print();
}

}  // namespace

void reproduce_adsp_figure3(reproduce_options const& options) {
  material data = material::images(options);
  introduce("Figure 3", data, one_one_three());
  fmt::print("adsp(R): R commits per check period. One learning rate for all, tuned at R = 4.\n\n");
  run_cluster("3 workers, times of a mini-batch 1 : 1 : 3, as in the paper", data, one_one_three(),
              options);
  run_cluster("18 EC2 instances", data, ec2(18), options);
  run_momenta(data, options);
}

}  // namespace rubato::bench
