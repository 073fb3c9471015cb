// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/vap.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/convex_problem.hpp"
#include "bench/reproduce/registry.hpp"
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

/// SGD on a convex problem, one component an update, with steps that fall with 1/√t.
class descent {
 public:
  descent(std::int64_t clocks, std::uint64_t seed)
      : seed_(seed), problem_({.rows = static_cast<std::size_t>(clocks) * workers}, seed) {
    for (std::size_t const part : {16U, 4U, 1U}) best_.push_back(problem_.minimize(problem_.size() / part).value);
    double squared = 0;
    for (double const x : problem_.minimize(problem_.size()).at) squared += x * x;
    step_ = std::sqrt(squared / workers);
  }

  [[nodiscard]] std::size_t updates() const { return problem_.size(); }
  /// What an update at clock t - 1 moves an element by at most, times √t.
  [[nodiscard]] double largest_move() const { return step_ / std::sqrt(double{workers}); }

  /// The mean of f_t at what was read for update t, less the least mean: of the first sixteenth, quarter, and all.
  [[nodiscard]] std::vector<double> regrets(rules const& p) const {
    sim::scenario const place{.speed = {.work_cost = 1ms, .jitter = sim::exponential{}}, .seed = seed_};
    std::size_t const features = problem_.features();
    cluster c{simulated{.workers = workers, .servers = 1, .scenario = place}, p, dense<double>{.rows = features}};
    std::vector<double> values(problem_.size());
    c.run([&](worker<table_handle<double, true>>& worker) {
      std::vector<double> x(features), update(features);
      for (std::size_t t = worker.rank(); t < values.size(); t += workers) {
        worker.pull(x);
        values[t] = problem_.value(t, x);
        double const by = -step_ / std::sqrt(static_cast<double>(t + 1)) * problem_.slope(t, x);
        for (std::size_t k = 0; k < features; ++k) update[k] = by * problem_.row(t)[k];
        worker.push(update);
        worker.step();
      }
    });
    std::vector<double> regrets;
    for (std::size_t i = 0; i < best_.size(); ++i) {
      std::size_t const count = values.size() >> (4 - 2 * i);
      double const sum = std::accumulate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
      regrets.push_back(sum / static_cast<double>(count) - best_[i]);
    }
    return regrets;
  }

 private:
  static constexpr std::uint32_t workers = 8;
  std::uint64_t seed_;
  convex_problem problem_;
  std::vector<double> best_;
  double step_ = 0;
};

/// How its regret falls.
void regrets(reproduce_options const& options, claims& said) {
  descent const d(options.clocks.value_or(8'192) / 16 * 16, options.seed);
  text_table table{.head = {"mean regret of", "T/16", "T/4", "T", "falls as T to the"}, .rows = {}};
  auto const add = [&](std::string name, rules const& p) {
    std::vector<double> const r = d.regrets(p);
    double const power = std::log(r.back() / r.front()) / std::log(16.0);
    std::vector<std::string> cells = {std::move(name)};
    for (double const regret : r) cells.push_back(fmt::format("{:.5f}", regret));
    cells.push_back(fmt::format("{:.2f}", power));
    table.rows.push_back(std::move(cells));
    return power;
  };
  double slowest = -1;
  for (double const steps : {0.0, 1.0, 4.0, 16.0})
    slowest = std::max(slowest, add(fmt::format("VAP, v_0 of {} steps", steps), vap{.first = steps * d.largest_move()}));
  add("SSP(3)", ssp{});
  add("ASP", asp{});
  fmt::print("Robust regression, one row for each update, T = {}:\n\n{}", d.updates(), table.to_string());
  said.add(slowest <= -0.5, "The mean regret of SGD under VAP is O(1/√T).",
           fmt::format("from T/16 to T it falls as T to the {:.2f} or faster.", slowest));
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
