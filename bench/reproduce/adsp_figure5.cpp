// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figures 5 and 7 of the ADSP paper (AAAI 2020): Fixed ADACOMM and ADSP at several degrees of
// heterogeneity, and with 36 workers (§5.2, App. D.2).

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/adsp.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/setup/edge.hpp"

namespace rubato::bench {
namespace {

using namespace aaai20;

constexpr std::array degrees = {1.0, 1.6, 2.4, 3.2};

/// What was run in one cluster.
struct results {
  outcome fixed;
  outcome adsp;
  outcome given;  ///< ADSP without its search
  [[nodiscard]] double gain() const { return 1 - adsp.seconds() / fixed.seconds(); }
  [[nodiscard]] double gain_of_given() const { return 1 - given.seconds() / fixed.seconds(); }
};

constexpr char const* fixed = "fixed_ada_comm:16";

struct two_rates {
  double fixed;
  double adsp;
};

results run_all(experiment& e, two_rates const& rates) {
  return {e.measure(e.choice(fixed), rates.fixed), e.measure(e.choice("adsp"), rates.adsp),
          e.measure(e.choice("adsp:3"), rates.adsp)};
}

std::string percent(double x) { return fmt::format("{:.0f}%", 100 * x); }

void add_rows(std::vector<outcome>& all, std::vector<std::vector<std::string>>& more,
              results const& r, std::string const& what, std::string const& paper) {
  all.push_back(r.fixed);
  more.push_back({what, "", ""});
  all.push_back(r.adsp);
  more.push_back({what, show_gain(r.adsp.seconds(), r.fixed.seconds()), paper});
  all.push_back(r.given);
  more.push_back({what, show_gain(r.given.seconds(), r.fixed.seconds()), ""});
}

void judge(std::array<results, degrees.size()> const& by_degree, results const& by_18,
           results const& by_36) {
  claims said;
  bool grows = true;
  for (std::size_t i = 1; i < degrees.size(); ++i)
    grows = grows && by_degree[i].gain() > by_degree[i - 1].gain();
  said.add(
      grows, "ADSP's gain over Fixed ADACOMM grows with H, to 62.4% at H = 3.2.",
      fmt::format("{}, {}, {} and {}.", percent(by_degree[0].gain()), percent(by_degree[1].gain()),
                  percent(by_degree[2].gain()), percent(by_degree[3].gain())));
  said.add(by_degree[3].adsp.seconds() < 1.25 * by_degree[0].adsp.seconds(),
           "ADSP's time hardly depends on H.",
           fmt::format("{} at H = 1, {} at 3.2.", show_time(by_degree[0].adsp),
                       show_time(by_degree[3].adsp)));
  said.add(by_36.gain() > by_18.gain(), "The gain is greater with 36 workers than with 18.",
           fmt::format("{} and {}.", percent(by_36.gain()), percent(by_18.gain())));
  said.add(
      by_36.fixed.seconds() > by_18.fixed.seconds() && by_36.adsp.seconds() > by_18.adsp.seconds(),
      "Both are slower with 36 workers.",
      fmt::format("{} and {}, with 18 {} and {}.", show_time(by_36.fixed), show_time(by_36.adsp),
                  show_time(by_18.fixed), show_time(by_18.adsp)));
  said.print();
  fmt::print(
      "\nAt R = 3 throughout, without the search, the gain is {}, {}, {} and {}; with 18 workers "
      "{}, with 36 {}.\n",
      percent(by_degree[0].gain_of_given()), percent(by_degree[1].gain_of_given()),
      percent(by_degree[2].gain_of_given()), percent(by_degree[3].gain_of_given()),
      percent(by_18.gain_of_given()), percent(by_36.gain_of_given()));
}

}  // namespace

void reproduce_adsp_figure5(reproduce_options const& options) {
  material data = material::images(options);
  introduce("Figures 5 and 7", data, ec2(18));
  fmt::print(
      "H is the mean speed over the least; the mean is the same for all H. Rates are tuned on 18 "
      "EC2 instances.\n\n");
  experiment tuning(data, ec2(18), options);
  two_rates const rates{tuning.tuned_rate(tuning.choice(fixed)),
                        tuning.tuned_rate(tuning.choice("adsp"))};
  std::vector<outcome> all;
  std::vector<std::vector<std::string>> more;
  std::array<results, degrees.size()> by_degree;
  for (std::size_t i = 0; i < degrees.size(); ++i) {
    setting s = ec2(18);
    s.job.scenario.speed.slowness = slowness_for_heterogeneity(18, degrees[i]);
    experiment e(data, std::move(s), options);
    by_degree[i] = run_all(e, rates);
    add_rows(all, more, by_degree[i], fmt::format("H = {}", degrees[i]),
             degrees[i] == 3.2 ? "-62.4%" : "");
  }
  std::array<results, 2> by_size;
  for (std::size_t i = 0; i < by_size.size(); ++i) {
    std::uint32_t const workers = i == 0 ? 18 : 36;
    experiment e(data, ec2(workers), options);
    by_size[i] = run_all(e, rates);
    add_rows(all, more, by_size[i], fmt::format("{} EC2 instances", workers), i == 0 ? "-33%" : "");
  }
  fmt::print("{}", table_of(all, {"", "ADSP's time", "paper"}, more).to_string());
  judge(by_degree, by_size[0], by_size[1]);
}

}  // namespace rubato::bench
