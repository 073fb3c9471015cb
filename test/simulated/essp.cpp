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

/// How workers read one table or two.
enum class reading {
  whole,
  keyed,
  pieces,  ///< by key, half of the rows at a time
  both,    ///< one whole, the other by key
  seldom,  ///< the second one in each third clock, after the first
};

/// How many commits of others workers were not shown that the servers had when they asked for their read before; or, of
/// what takes turns in being renewed, tables or pieces of which one was fetched, two reads before. Of each worker a row
/// says how many are in.
class missed_commits {
 public:
  missed_commits(testing::schedule const& s, reading how) : schedule_(s), how_(how), keys_(s.workers) {
    std::iota(keys_.begin(), keys_.end(), std::uint64_t{0});
  }

  std::uint64_t under(rules const& protocol) {
    std::size_t const rows = schedule_.workers;
    cluster c{simulated{.workers = schedule_.workers, .servers = schedule_.servers, .scenario = schedule_.scenario},
              protocol, dense<double>{.rows = rows}, dense<double>{.rows = rows}};
    count_ = 0;
    c.run([&](auto& worker) {
      history first(rows), second(rows);
      std::vector<double> delta(rows);
      delta[worker.rank()] = 1;
      for (std::int64_t k = 0; k < schedule_.manners[worker.rank()].clocks; ++k) {
        bool const two = how_ == reading::both || how_ == reading::seldom;
        if (reads_first()) look(first, two, c.template parameters<0>(), [&](auto& shown) { worker.pull(shown); });
        if (reads_second(k))
          look(second, how_ == reading::both || how_ == reading::pieces, c.template parameters<1>(),
               [&](auto& shown) { pull_second(worker, shown); });
        worker.push(delta);
        worker[table<1>].push(delta);
        worker.step(1.0);
      }
    });
    return count_;
  }

 private:
  struct history {
    explicit history(std::size_t rows) : shown(rows), before(rows), before_that(rows) {}
    std::vector<double> shown, before, before_that;
  };

  [[nodiscard]] bool reads_first() const { return how_ != reading::keyed && how_ != reading::pieces; }
  [[nodiscard]] bool reads_second(std::int64_t k) const {
    return how_ == reading::seldom ? k % 3 == 0 : how_ != reading::whole;
  }

  template <class Worker>
  void pull_second(Worker& worker, std::vector<double>& shown) const {
    if (how_ == reading::seldom) return worker[table<1>].pull(shown);
    std::span const all(keys_);
    std::size_t const half = how_ == reading::pieces ? keys_.size() / 2 : 0;
    if (half != 0) worker[table<1>].pull(all.first(half), std::span(shown).first(half));
    worker[table<1>].pull(all.subspan(half), std::span(shown).subspan(half));
  }

  template <class State, class Pull>
  void look(history& h, bool turns, State const& now, Pull pull) {
    std::vector<double> state(now.begin(), now.end());
    pull(h.shown);
    auto const& had = turns ? h.before_that : h.before;
    for (std::size_t j = 0; j < h.shown.size(); ++j) count_ += h.shown[j] < had[j] ? 1 : 0;
    h.before_that = std::exchange(h.before, std::move(state));
  }

  testing::schedule const& schedule_;
  reading how_;
  std::vector<std::uint64_t> keys_;
  std::uint64_t count_ = 0;
};

/// A sum that writes down how stale each update was, by the server and by its own count of others' updates.
struct noted_sum {
  struct note {
    std::uint32_t worker;
    std::int64_t stamp;
    std::uint64_t age;
    std::uint64_t others;  ///< folded before it, of others
  };
  struct notes {
    std::vector<note> all;
    std::uint64_t folds = 0;
  };
  notes* to;

  [[nodiscard]] double weight(commit_info const& c) const noexcept {
    auto const stamp = c.stamp.value();
    to->all.push_back({c.from.value(), stamp, c.age, to->folds++ - static_cast<std::uint64_t>(stamp)});
    return 1;
  }
};
static_assert(merge_policy<noted_sum>);

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
  auto const how = GENERATE(reading::whole, reading::keyed, reading::pieces, reading::both, reading::seldom);
  INFO("reading " << static_cast<int>(how));
  std::uint64_t by_ssp = 0;
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const s = testing::random_schedule(seed, {.joins = false, .crashes = false});
    staleness const bound{static_cast<std::int64_t>(seed % 6)};
    missed_commits missed(s, how);
    CHECK(missed.under(essp{.staleness = bound}) == 0);
    by_ssp += missed.under(ssp{.staleness = bound});
  }
  if (test::seed_count(200) >= 100) CHECK(by_ssp > 1000);
}

TEST_CASE("ESSP: a table that is read as a whole and by key goes back in time no more than under SSP",
          "[simulated][essp]") {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const s = testing::random_schedule(seed, {.joins = false, .crashes = false, .processes = seed % 2 == 0});
    cluster c{simulated{.workers = s.workers, .servers = s.servers, .scenario = s.scenario},
              essp{.staleness = static_cast<std::int64_t>(seed % 6)}, dense<double>{.rows = s.workers}};
    std::uint64_t back = 0;
    c.run([&](auto& worker) {
      std::vector<double> seen(s.workers), shown(s.workers), delta(s.workers);
      delta[worker.rank()] = 1;
      auto const look = [&](std::uint64_t first, std::span<double const> now) {
        for (std::size_t j = 0; j < now.size(); ++j) {
          double& last = seen[static_cast<std::size_t>(first) + j];
          back += now[j] < last ? 1 : 0;
          last = now[j];
        }
      };
      for (std::int64_t k = 0; k < s.manners[worker.rank()].clocks; ++k) {
        std::uint64_t const row = worker.random().below(s.workers);
        if (worker.random().chance(0.5)) {
          worker.pull(shown);
          look(0, shown);
        }
        worker.pull(std::vector<std::uint64_t>{row}, std::span(shown).first(1));
        look(row, std::span(shown).first(1));
        if (worker.random().chance(0.5)) {
          worker.pull(shown);
          look(0, shown);
        }
        worker.push(delta);
        worker.step(1.0);
      }
    });
    CHECK(back == 0);
  }
}

TEST_CASE("ESSP: an update's age counts from the copy that it was computed at, not from the next one",
          "[simulated][essp]") {
  std::uint64_t stale = 0;
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const s = testing::random_schedule(seed, {.joins = false, .crashes = false});
    noted_sum::notes notes;
    std::vector<std::vector<std::uint64_t>> shown(s.workers);  // updates of others, by worker and clock
    auto const protocol = with(essp{.staleness = static_cast<std::int64_t>(seed % 6)}, noted_sum{&notes});
    cluster c{simulated{.workers = s.workers, .servers = 1, .scenario = s.scenario}, protocol,
              dense<double>{.rows = s.workers}};
    c.run([&](auto& worker) {
      std::vector<double> w(s.workers), delta(s.workers);
      delta[worker.rank()] = 1;
      for (std::int64_t k = 0; k < s.manners[worker.rank()].clocks; ++k) {
        worker.pull(w);
        shown[worker.rank()].push_back(static_cast<std::uint64_t>(std::accumulate(w.begin(), w.end(), 0.0) -
                                                                  w[worker.rank()]));
        worker.push(delta);
        worker.step(1.0);
      }
    });
    for (auto const& n : notes.all) {
      // Its own last update may be missing from what it has renewed.
      std::uint64_t const missed = n.others - shown[n.worker][static_cast<std::size_t>(n.stamp)];
      REQUIRE(n.age >= missed);
      REQUIRE(n.age <= missed + 1);
      stale += missed > 0 ? 1 : 0;
    }
  }
  if (test::seed_count(200) >= 100) CHECK(stale > 1000);
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
