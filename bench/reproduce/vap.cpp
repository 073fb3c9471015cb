// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/vap.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/convex_problem.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/regret.hpp"
#include "bench/result/text.hpp"
#include "bench/train/body.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/protocol/vap.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench {

using namespace std::chrono_literals;

namespace aaai15 {
namespace {

/// What each worker knows, kept by the workers themselves. Fibers of one thread.
class ledger {
 public:
  explicit ledger(std::size_t workers) : made_(workers, 0), computes_(workers, false), read_(workers) {
    for (auto& r : read_) r.resize(workers);
  }
  [[nodiscard]] std::vector<double>& read(std::size_t w) { return read_[w]; }
  void begin(std::size_t w) { computes_[w] = true; }
  void commit(std::size_t w, double change) {
    made_[w] += change;
    computes_[w] = false;
  }
  /// Of this worker's updates, by the one that has seen least of those who compute.
  [[nodiscard]] double unseen(std::size_t w) const {
    double most = 0;
    for (std::size_t other = 0; other < made_.size(); ++other)
      if (other != w && computes_[other]) most = std::max(most, made_[w] - read_[other][w]);
    return most;
  }

 private:
  std::vector<double> made_;
  std::vector<bool> computes_;
  std::vector<std::vector<double>> read_;
};

}  // namespace

unseen unseen_of(rules const& p, unseen_setting const& how) {
  sim::scenario const place{
      .speed = {.work_cost = 1ms, .jitter = how.time}, .network = {.worker_link = {.latency = 50us}}, .seed = how.seed};
  cluster c{simulated{.workers = how.workers, .servers = 1, .scenario = place}, p, dense<double>{.rows = how.workers}};
  ledger known(how.workers);
  unseen found;
  run_report const report = c.run([&](worker<table_handle<double, true>>& worker) {
    std::size_t const me = worker.rank();
    std::vector<double> moved(how.workers);
    for (std::int64_t clock = 0; clock < how.clocks; ++clock) {
      double const root = std::sqrt(static_cast<double>(clock) + 1);
      worker.pull(known.read(me));
      known.begin(me);
      found.at_reads = std::max(found.at_reads, root * known.unseen(me));
      moved[me] = 1 / root;
      worker.push(moved);
      worker.step();
      known.commit(me, moved[me]);
      found.with_own = std::max(found.with_own, root * known.unseen(me));
    }
  });
  worker_metrics const all = report.total();
  found.waited = to_seconds(all.wait) / to_seconds(all.total());
  found.clocks_a_second = static_cast<double>(how.clocks) / to_seconds(report.elapsed);
  return found;
}

}  // namespace aaai15

namespace {

using namespace aaai15;

/// Whether the limit holds, by what readers find, and what it costs.
void limits(reproduce_options const& options, claims& said) {
  unseen_setting const how{.clocks = options.clocks.value_or(1'000), .time = sim::exponential{}, .seed = options.seed};
  fmt::print("{} workers, steps take exponential times of mean 1 ms; the commit of clock t - 1 moves an element by "
             "1/√t. What another one who computes has not seen, in units of 1/√t, at most:\n\n",
             how.workers);
  text_table table{.head = {"", "when read", "with the next", "waiting", "clocks/s"}, .rows = {}};
  auto const add = [&](std::string name, rules const& p) {
    unseen const u = unseen_of(p, how);
    table.rows.push_back({std::move(name), fmt::format("{:.2f}", u.at_reads), fmt::format("{:.2f}", u.with_own),
                          show_share(u.waited), fmt::format("{:.0f}", u.clocks_a_second)});
    return u;
  };
  unseen const bulk = add("BSP", with(bsp{}, sum{}));
  unseen of_0{};
  double most_off = 0, least_waited = 1;
  bool rises = true;
  for (double const first : {0.0, 1.0, 2.0, 4.0, 8.0, 16.0}) {
    unseen const u = add(fmt::format("VAP, v_0 = {}", first), vap{.first = first});
    if (first == 0) of_0 = u;
    most_off = std::max({most_off, u.at_reads - first, u.with_own - first - 1});
    rises = rises && u.waited <= least_waited;
    least_waited = u.waited;
  }
  unseen const stale = add("SSP(3)", ssp{});
  unseen const free = add("ASP", asp{});
  fmt::print("{}\n", table.to_string());
  said.add(most_off < 1e-9, "What is not seen of a worker's updates is at most v_t = v_0/√t in any element.",
           fmt::format("it is so at each read, and with the commit that is computed then at most 1/√t more. Under "
                       "SSP(3) it is up to {:.1f}/√t, under ASP {:.1f}/√t.",
                       stale.at_reads, free.at_reads));
  said.add(rises && of_0.waited > 0.95 * bulk.waited,
           "The smaller v_0, the nearer is VAP to strong consistency, which all workers must agree on.",
           fmt::format("workers wait for {} of the time with v_0 = 16 and {} with 0; BSP {}, SSP(3) {}.",
                       show_share(least_waited), show_share(of_0.waited), show_share(bulk.waited),
                       show_share(stale.waited)));
}

/// The regret of SGD with steps that fall with 1/√t.
void regrets(reproduce_options const& options, claims& said) {
  constexpr std::uint32_t workers = 8;
  std::int64_t const updates = options.clocks.value_or(8'192) / 16 * 16 * workers;
  convex_problem const problem({.rows = static_cast<std::size_t>(updates)}, options.seed);
  std::vector<optimum> optima;
  for (std::int64_t const part : {16, 4, 1})
    optima.push_back({updates / part, problem.minimize(static_cast<std::size_t>(updates / part))});
  double squared = 0;
  for (double const x : optima.back().best.at) squared += x * x;
  regret_bound const bound{.diameter = std::sqrt(2 * squared), .staleness = 3, .workers = workers};
  text_table table{.head = {"regret of T updates", "T/16", "T/4", "T", "falls as T to the"}, .rows = {}};
  double worst = -1;
  auto const add = [&](std::string name, rules const& p) {
    regret_setting const s{.problem = problem, .optima = optima, .bound = bound, .seed = options.seed};
    regret_run const r = measure_regret(s, p, update_weight::one);
    double const power = std::log(r.regrets.back() / r.regrets.front()) / std::log(16.0);
    std::vector<std::string> cells = {std::move(name)};
    for (double const regret : r.regrets) cells.push_back(fmt::format("{:.5f}", regret));
    cells.push_back(fmt::format("{:.2f}", power));
    table.rows.push_back(std::move(cells));
    return power;
  };
  double const step = bound.step_size(1) / std::sqrt(double{workers});  // that of clock t, times √t
  for (double const commits : {0.0, 1.0, 4.0, 16.0})
    worst = std::max(worst, add(fmt::format("VAP, v_0 of {} steps", commits), vap{.first = commits * step}));
  add("SSP(3)", ssp{});
  fmt::print("Robust regression, one row for each update, T = {}:\n\n{}", updates, table.to_string());
  said.add(worst <= -0.5, "The mean regret of SGD under VAP is O(1/√T).",
           fmt::format("from T/16 to T it falls as T to the {:.2f} or faster.", worst));
}

}  // namespace

void reproduce_vap(reproduce_options const& options) {
  fmt::print("Dai, Kumar, Wei, Ho, Gibson, Xing, \"High-Performance Distributed ML at Scale through Parameter Server "
             "Consistency Models\", AAAI 2015. ");
  claims said;
  limits(options, said);
  regrets(options, said);
  said.print();
}

}  // namespace rubato::bench
