// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/essp.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/simulated.hpp>

#include "simulated/family.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

/// Renews what is at least half as old as it may be; with 0, everything.
struct half_way {
  std::int64_t bound = 0;
  [[nodiscard]] bool renews(read_point at) const noexcept { return 2 * at.age.clocks() >= bound; }
};
static_assert(read_policy<half_way>);

/// How the workers of `watch` read.
enum class reading { whole, keyed, both };

/// How many commits of others workers were not shown that the servers had when they asked for their read before; or, where
/// they read `both` tables, of which one is renewed in a clock, two reads before. Of each worker a row says how many are in.
std::uint64_t missed(testing::schedule const& s, rules const& protocol, reading how) {
  std::size_t const rows = s.workers;
  cluster c{simulated{.workers = s.workers, .servers = s.servers, .scenario = s.scenario}, protocol,
            dense<double>{.rows = rows}, dense<double>{.rows = rows}};
  std::uint64_t count = 0;
  std::vector<std::uint64_t> keys(rows);
  std::iota(keys.begin(), keys.end(), std::uint64_t{0});
  c.run([&](auto& worker) {
    struct history {
      std::vector<double> shown, before, before_that;
    };
    history first{std::vector<double>(rows), std::vector<double>(rows), std::vector<double>(rows)}, second = first;
    auto const look = [&](history& h, auto const& now, auto pull) {
      std::vector<double> state(now.begin(), now.end());
      pull(h.shown);
      auto const& had = how == reading::both ? h.before_that : h.before;
      for (std::size_t j = 0; j < rows; ++j) count += h.shown[j] < had[j] ? 1 : 0;
      h.before_that = std::exchange(h.before, std::move(state));
    };
    std::vector<double> delta(rows);
    delta[worker.rank()] = 1;
    for (std::int64_t k = 0; k < s.manners[worker.rank()].clocks; ++k) {
      if (how != reading::keyed)
        look(first, c.template parameters<0>(), [&](auto& shown) { worker.pull(shown); });
      if (how != reading::whole)
        look(second, c.template parameters<1>(), [&](auto& shown) { worker[table<1>].pull(keys, std::span(shown)); });
      worker.push(delta);
      worker[table<1>].push(delta);
      worker.step(1.0);
    }
  });
  return count;
}

}  // namespace

TEST_CASE("SSP that renews its copies keeps SSP's rules in random runs, in processes of several workers, too",
          "[simulated][essp]") {
  for (bool const processes : {false, true})
    test::check_family(
        [](std::uint64_t seed) {
          staleness const s = test::random_staleness(seed);
          bool const always = seed % 3 != 0 || s.is_infinite();
          return with(essp{.staleness = s}, test::random_pace(seed), half_way{always ? 0 : s.clocks()});
        },
        [](std::uint64_t seed) { return testing::eager_rules(test::random_staleness(seed)); }, {.processes = processes});
}

TEST_CASE("ESSP: no read is older than the servers were when the worker asked before", "[simulated][essp]") {
  auto const how = GENERATE(reading::whole, reading::keyed, reading::both);
  INFO("reading " << static_cast<int>(how));
  std::uint64_t by_ssp = 0;
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO("repeat with --seed " << seed);
    auto const s = testing::random_schedule(seed, {.joins = false, .crashes = false});
    staleness const bound{static_cast<std::int64_t>(seed % 6)};
    CHECK(missed(s, essp{.staleness = bound}, how) == 0);
    by_ssp += missed(s, ssp{.staleness = bound}, how);
  }
  if (test::seed_count(200) >= 100) CHECK(by_ssp > 1000);
}

TEST_CASE("ESSP: workers of one process renew for each other, and not from what the process has", "[simulated][essp]") {
  bool const processes = GENERATE(false, true);
  sim::scenario scenario{.speed = {.work_cost = 10ms, .jitter = sim::uniform{0.9, 1.1}}};
  if (processes) scenario.machine_of = sim::blocks(6, 2);
  scenario.one_process_per_machine = processes;
  auto const mean_staleness = [&](rules const& protocol) {
    cluster c{simulated{.workers = 6, .servers = 2, .scenario = scenario}, protocol, dense<double>{.rows = 8}};
    auto const report = c.run([](auto& worker) {
      std::vector<double> w(8);
      for (int k = 0; k < 100; ++k) {
        worker.pull(w);
        worker.push(w);
        worker.step(1.0);
      }
    });
    double reads = 0, sum = 0;
    for (std::size_t i = 0; i < report.total().staleness.size(); ++i) {
      reads += static_cast<double>(report.total().staleness[i]);
      sum += static_cast<double>(i) * static_cast<double>(report.total().staleness[i]);
    }
    CHECK(reads == 600);
    return sum / reads;
  };
  double const eager = mean_staleness(essp{.staleness = 8}), by_need = mean_staleness(ssp{.staleness = 8});
  INFO(eager << " and " << by_need);
  CHECK(eager < 0.7 * by_need);
  // Whoever renews at half the bound is in between.
  double const half = mean_staleness(with(ssp{.staleness = 8}, half_way{8}));
  CHECK(eager < half);
  CHECK(half < by_need);
}
