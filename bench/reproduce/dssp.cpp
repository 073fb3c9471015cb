// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/dssp.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/best_rate.hpp"
#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/ground.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/result/text.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"

namespace rubato::bench {
namespace {

using namespace std::chrono_literals;
using namespace icdcs19;

constexpr std::int64_t lowest = 3, highest = 15;  ///< the paper's range, of staleness

/// To the target at the best rates, and SSP's mean over the range.
struct times {
  double bsp = 0, ssp_mean = 0, ssp_best = 0, dssp = 0, asp = 0;
};

/// Logistic regression by workers that take so many times as long as a millisecond for a step, give or take a tenth.
times race(reproduce_options const& options, std::vector<double> const& slowness) {
  ground const g(options, {.workers = static_cast<std::uint32_t>(slowness.size()), .steps = 20'000});
  training job = g.job();
  double const values = job.batch * static_cast<double>(job.work->train().nonzeros()) / job.workers;
  job.scenario.speed = {
      .work_cost = seconds(1e-3 / values), .slowness = slowness, .jitter = sim::lognormal{.sigma = 0.1}};
  job.scenario.network = {.worker_link = {.latency = 20us}};
  text_table table{.head = {"", "rate", "time", "updates/s", "waiting"}, .rows = {}};
  auto const run = [&](std::string name, rules const& p) {
    run_result const r = run_at_best_rate(job, [&](double) { return p; }, 1, {.least = 0.25, .greatest = 4});
    table.rows.push_back({std::move(name), fmt::format("{:.3g}", r.learning_rate),
                          r.seconds_to_target ? show_seconds(*r.seconds_to_target) : "-",
                          fmt::format("{:.0f}", static_cast<double>(r.updates) / r.seconds),
                          show_share(r.wait_seconds / (r.compute_seconds + r.send_seconds + r.wait_seconds))});
    return finish{r}.seconds();
  };
  times t;
  t.bsp = run("BSP", bsp{});
  std::vector<double> of_ssp;
  for (std::int64_t s = lowest; s <= highest; s += 3)
    of_ssp.push_back(run(fmt::format("SSP({})", s), fetching_dssp(s, s)));
  for (double const s : of_ssp) t.ssp_mean += s / static_cast<double>(of_ssp.size());
  t.ssp_best = std::ranges::min(of_ssp);
  t.dssp = run("DSSP(3 to 15)", fetching_dssp(lowest, highest));
  t.asp = run("ASP", asp{});
  fmt::print("{}\n", table.to_string());
  return t;
}

/// What the wait of a fast and a slow worker hangs on, one thing at a time.
void one_by_one(reproduce_options const& options, claims& said) {
  wait_setting const how{.seed = options.seed};
  text_table table{.head = {"", "waiting", "clocks/s", "ahead at most"}, .rows = {}};
  auto const add = [&](std::string name, waits const& w) {
    table.rows.push_back({std::move(name), show_share(w.waited), fmt::format("{:.2f}", w.clocks_a_second),
                          std::to_string(w.furthest)});
    return w;
  };
  auto const modelled = [&](std::string name, extension_rules by) {
    return add(std::move(name), modelled_waits({lowest, highest}, by, how));
  };
  waits const three = add("SSP(3)", measured_waits(fetching_dssp(lowest, lowest), how));
  add("SSP(15)", measured_waits(fetching_dssp(highest, highest), how));
  waits const here = add("DSSP(3 to 15)", measured_waits(fetching_dssp(lowest, highest), how));
  modelled("  modelled", {});
  modelled("  by what they compute", {.by_computing = true});
  modelled("  without an end", {.without_end = true});
  modelled("  waiting for one commit", {.one_commit = true});
  waits const both = modelled("  the last two", {.without_end = true, .one_commit = true});
  modelled("  all three", {.by_computing = true, .without_end = true, .one_commit = true});
  waits const free = add("ASP", measured_waits(asp{}, how));
  fmt::print("Two workers, one of them 2.6 times slower, until it has made {} clocks:\n\n{}\n", how.clocks,
             table.to_string());
  said.add(here.waited < 0.9 * three.waited, "DSSP reduces the waiting time of faster workers (abstract).",
           fmt::format("not in the long run: {} with SSP(3), {} with DSSP, since no staleness up to 15 lets the fast "
                       "one make more clocks than the slow one and 15. By a model in which extensions have no end and "
                       "a wait is for one commit of the slowest it is {}, and one is {} clocks ahead; ASP {}.",
                       show_share(three.waited), show_share(here.waited), show_share(both.waited), both.furthest,
                       show_share(free.waited)));
}

}  // namespace

void reproduce_dssp(reproduce_options const& options) {
  fmt::print("Zhao, An, Liu, Chen, \"Dynamic Stale Synchronous Parallel Distributed Training for Deep Learning\", "
             "ICDCS 2019: DSSP with s_L = 3, s_U = 15 beside SSP with thresholds of that range. Workers fetch in each "
             "clock. Each at its best rate.\n\nFour workers that are alike. ");
  times const even = race(options, {1, 1, 1, 1});
  fmt::print("Two workers, one of them 2.6 times slower (the paper's are a GTX 1080 Ti and a GTX 1060; the ratio is of "
             "their peak rates). ");
  times const uneven = race(options, {1, 2.6});
  claims said;
  said.add(even.dssp < 0.8 * even.bsp, "Where GPUs are alike DSSP converges much faster than BSP (abstract).",
           fmt::format("{} for {}.", show_seconds(even.dssp), show_seconds(even.bsp)));
  said.add(even.dssp < even.ssp_mean, "There it is slightly better than SSP, on average over thresholds.",
           fmt::format("{} for {}; the best threshold's is {}.", show_seconds(even.dssp), show_seconds(even.ssp_mean),
                       show_seconds(even.ssp_best)));
  said.add(even.dssp < 0.99 * even.asp, "There it is slightly better than ASP.",
           fmt::format("{} for {}.", show_seconds(even.dssp), show_seconds(even.asp)));
  said.add(uneven.dssp < 0.9 * uneven.bsp && uneven.dssp < 0.9 * uneven.ssp_mean,
           "Where they are mixed it converges much earlier than BSP and SSP.",
           fmt::format("{} for {} and {}; the best threshold's is {}.", show_seconds(uneven.dssp),
                       show_seconds(uneven.bsp), show_seconds(uneven.ssp_mean), show_seconds(uneven.ssp_best)));
  said.add(uneven.dssp < 1.1 * uneven.asp, "There it is like ASP.",
           fmt::format("{} for {}.", show_seconds(uneven.dssp), show_seconds(uneven.asp)));
  one_by_one(options, said);
  said.print();
}

}  // namespace rubato::bench
