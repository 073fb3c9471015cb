// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 8 of the ADSP paper (AAAI 2020): ADSP beside ADSP+, which searches offline for the number
// of local steps of each worker between commits, at a fixed commit rate (App. D.2).

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/adsp.hpp"
#include "bench/reproduce/limited_rate.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/train/run.hpp"
#include "bench/train/timing.hpp"
#include "rubato/protocol/adsp.hpp"

namespace rubato::bench {
namespace {

using namespace aaai20;

constexpr std::int64_t commits_per_period = 2;

/// Of the steps that a worker could make beyond those of the slowest, the share that it makes: 0 is
/// Fixed ADACOMM's way, 1 is ADSP's. One share for each kind of worker that is not the slowest.
struct shares {
  double middle;
  double fastest;
};
constexpr std::array tried = {0.0, 0.25, 0.5, 0.75, 1.0};

/// The most local steps that each worker makes from commit to commit.
std::vector<std::int64_t> limits_of(training const& job, shares const& s) {
  timing const t = timing_of(job);
  double const interval = minute / commits_per_period - t.exchange_seconds;
  double const least = interval / t.slowest_step();
  double const fastest = std::ranges::min(t.step_seconds);
  std::vector<std::int64_t> limits;
  for (double const step : t.step_seconds) {
    double const share = step == fastest ? s.fastest : s.middle;
    double const most = interval / step;
    // Who is to make all that it can is not held up by a step that went fast.
    bool const all = share == 1 || most == least;
    limits.push_back(all ? std::numeric_limits<std::int64_t>::max()
                         : std::max<std::int64_t>(1, std::llround(least + share * (most - least))));
  }
  return limits;
}

run_result run_plus(training const& job, shares const& s) {
  commit_rate_options const options{
      .check_period = seconds(minute), .first_rate = commits_per_period, .search = false};
  return run_at_own_pace(with(adsp{}, limited_rate(options, limits_of(job, s))), job);
}

/// The best shares, by one run each.
shares search(experiment& e, double rate, std::uint64_t seed, text_table& t) {
  shares best{1, 1};
  double least = std::numeric_limits<double>::infinity();
  for (double const middle : tried) {
    std::vector<std::string> row = {fmt::format("{:.0f}%", 100 * middle)};
    for (double const fastest : tried) {
      run_result const r = run_plus(e.job_of(rate, seed, {.at_target = true}), {middle, fastest});
      row.push_back(r.seconds_to_target ? show_seconds(*r.seconds_to_target) : "-");
      if (!r.seconds_to_target || *r.seconds_to_target >= least) continue;
      least = *r.seconds_to_target;
      best = {middle, fastest};
    }
    t.rows.push_back(std::move(row));
  }
  return best;
}

outcome measure_plus(experiment& e, std::string label, shares const& s, double rate,
                     std::uint64_t seed) {
  std::vector<run_result> runs;
  for (std::uint64_t i = 1; i <= e.seeds; ++i)
    runs.push_back(run_plus(e.job_of(rate, seed + i, {.at_target = true}), s));
  return outcome_of(std::move(label), rate, std::move(runs));
}

}  // namespace

void reproduce_adsp_figure8(reproduce_options const& options) {
  material data = material::images(options);
  experiment e(data, ec2(18), options);
  introduce("Figure 8", data, e.here);
  e.seeds = 5;
  protocol_choice const fixed = e.choice("adsp:" + std::to_string(commits_per_period));
  double const rate = e.tuned_rate(fixed);
  text_table t{.head = {"4 vCPUs \\ 8 vCPUs"}, .rows = {}};
  for (double const share : tried) t.head.push_back(fmt::format("{:.0f}%", 100 * share));
  shares const best = search(e, rate, options.seed, t);
  fmt::print(
      "Time at R = {}, where workers of 4 and 8 vCPUs make that share of the local steps that "
      "they can beyond those of 2 vCPUs:\n{}\n",
      commits_per_period, t.to_string());
  std::vector<outcome> const all = {
      e.measure(fixed, rate),
      measure_plus(e, fmt::format("adsp+({:.0f}%, {:.0f}%)", 100 * best.middle, 100 * best.fastest),
                   best, rate, options.seed),
      measure_plus(e, "adsp+(0%, 0%)", {0, 0}, rate, options.seed)};
  fmt::print("With other seeds\n{}", table_of(all).to_string());
  claims said;
  said.add(all[0].seconds() < 1.1 * all[1].seconds(),
           "ADSP is nearly as fast as ADSP+ without its search.",
           fmt::format("{} and {}.", show_time(all[0]), show_time(all[1])));
  said.print();
}

}  // namespace rubato::bench
