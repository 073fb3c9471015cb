// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Threads that share what they fetch.
#include <rubato/transport/threads/thread_process.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/random.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

#include "seeds.hpp"

namespace rb = rubato;

namespace {

using integers = rb::dense<std::int64_t, rb::sum>;

rb::in_process one_process(std::uint32_t workers, std::uint32_t servers = 1) {
  return {.workers = workers, .servers = servers, .process_cache = true};
}

/// All read the same row at each clock, once all are there: what is fetched before a worker has come is not for it.
rb::run_report read_one_row(rb::in_process const& where, rb::rules const& p, int clocks) {
  rb::cluster c{where, p, integers{.rows = 8}};
  std::atomic<std::uint32_t> here = 0;
  return c.run([&](auto& w) {
    ++here;
    while (here < w.count()) std::this_thread::yield();
    std::vector<std::int64_t> one(1);
    for (int i = 0; i < clocks; ++i) {
      w.pull(std::vector{rb::key{5}}, one);
      w.push(std::vector{rb::key{5}}, std::vector<std::int64_t>{1});
      w.step();
    }
  });
}

}  // namespace

TEST_CASE("in process: under the barrier all threads that miss a row issue one request a clock", "[threads]") {
  constexpr std::uint64_t clocks = 30, workers = 4;
  rb::worker_metrics const all = read_one_row(one_process(workers), rb::bsp{}, clocks).total();
  CHECK(all.pulls == workers * clocks);
  CHECK(all.fetches == workers * clocks);
  CHECK(all.requests == clocks);
  CHECK(all.process_hits == (workers - 1) * clocks);
}

TEST_CASE("in process: without the cache, or where reads are of cuts, each asks for itself", "[threads]") {
  constexpr std::uint64_t clocks = 10, workers = 3;
  for (bool const cuts : {false, true}) {
    rb::rules const p = cuts ? rb::rules(with(rb::ssp{}, rb::stable_cut{})) : rb::rules(rb::bsp{});
    rb::worker_metrics const all =
        read_one_row(cuts ? one_process(workers) : rb::in_process{.workers = workers}, p, clocks).total();
    CHECK(all.process_hits == 0);
    CHECK(all.requests == all.fetches);
    CHECK(all.fetches <= workers * clocks);
  }
}

TEST_CASE("in process: through both caches reads keep SSP-1 and SSP-2, and totals are exact", "[threads]") {
  for (std::uint64_t run = 0; run < rb::test::seed_count(200); ++run) {
    std::uint64_t const seed = rb::test::first_seed() + run;
    INFO("repeat with --seed " << seed);
    rb::random_stream random(seed, 0);
    auto const workers = static_cast<std::uint32_t>(2 + random.below(4));
    auto const servers = static_cast<std::uint32_t>(1 + random.below(3));
    auto const s = static_cast<std::int64_t>(random.below(4));
    std::int64_t const clocks = 15;
    std::uint64_t const cached = random.chance(0.5) ? 0 : 1 + random.below(4);
    bool const barrier = random.chance(0.2);
    rb::rules const p = barrier ? rb::rules(rb::bsp{}) : rb::rules(rb::ssp{.staleness = s});
    std::atomic<int> wrong = 0;
    rb::cluster c{one_process(workers, servers), with(p, rb::sum{}),
                  integers{.rows = 6 + workers, .cached_rows = cached},
                  rb::sparse<std::int64_t, rb::sum>{.rows = 100, .cached_rows = cached}};
    // Rows 0 to 5 are everybody's, the others have one writer each; so has key 10 + rank.
    auto const report = c.run([&](auto& w) {
      rb::random_stream mine(seed, 1 + w.rank());
      std::int64_t own = 0;
      std::vector<std::int64_t> two(2), one(1), all(6 + workers);
      for (std::int64_t i = 0; i < clocks; ++i) {
        std::vector<rb::key> const keys{rb::key{mine.below(6)}, rb::key{6 + w.rank()}};
        std::vector<rb::key> const sparse_key{rb::key{10 + w.rank()}};
        if (mine.chance(0.3)) w.prefetch(keys);
        std::int64_t const bound = barrier ? 0 : s;
        std::int64_t const least = own + static_cast<std::int64_t>(workers - 1) * std::max<std::int64_t>(0, i - bound);
        if (mine.chance(0.2)) {
          w.pull(all);
          for (std::size_t k = 0; k < 6; ++k) wrong += all[k] < least;
          wrong += all[6 + w.rank()] != own;
        } else if (mine.chance(0.8)) {
          w.pull(keys, two);
          wrong += two[0] < least;
          wrong += two[1] != own;
        }
        if (mine.chance(0.5)) {
          w[rb::table<1>].pull(sparse_key, one);
          wrong += one[0] != own;
        }
        std::vector<std::int64_t> update(6 + workers);
        for (std::size_t k = 0; k < 6; ++k) update[k] = 1;
        update[6 + w.rank()] = 1;
        w.push(update);
        w[rb::table<1>].push(sparse_key, std::vector<std::int64_t>{1});
        ++own;
        w.step();
      }
      if (mine.chance(0.5)) w.prefetch();  // and leaves
    });
    REQUIRE(wrong == 0);
    auto const end = c.template parameters<0>();
    for (std::size_t k = 0; k < end.size(); ++k) REQUIRE(end[k] == (k < 6 ? workers * clocks : clocks));
    REQUIRE(report.total().fetches <= report.total().requests + report.total().process_hits);
  }
}

TEST_CASE("in process: a thread that fails while others wait for what it asked for ends the run", "[threads]") {
  for (int i = 0; i < 20; ++i) {
    rb::cluster c{one_process(4), rb::bsp{}, integers{.rows = 8}};
    CHECK_THROWS_WITH(c.run([&](auto& w) {
      std::vector<std::int64_t> one(1);
      for (int clock = 0;; ++clock) {
        w.prefetch(std::vector{rb::key{5}});
        if (w.rank() == 0 && clock == i % 4) throw std::runtime_error("no more");
        w.pull(std::vector{rb::key{5}}, one);
        w.step();
      }
    }),
                      "no more");
  }
}

TEST_CASE("in process: a thread that is added shares what the others fetch", "[threads]") {
  rb::cluster c{one_process(2), rb::ssp{.staleness = 1}, integers{.rows = 8}};
  std::atomic<bool> added = false;
  auto const report = c.run([&](auto& w) {
    if (w.rank() == 0 && !added.exchange(true)) c.add_worker();
    std::vector<std::int64_t> all(8);
    for (int i = 0; i < 20; ++i) {
      w.pull(all);
      w.push(std::vector<std::int64_t>(8, 1));
      w.step();
    }
  });
  CHECK(report.workers.size() == 3);
  CHECK(c.parameters()[7] == 3 * 20);
}

// ---- 001 §3: who is behind need hardly ask

TEST_CASE("the slowest worker asks for a hot row at most once every s + 1 clocks") {
  for (std::int64_t const s : {0, 1, 3, 7}) {
    rb::simulated where{.workers = 4, .servers = 1};
    where.scenario.speed.work_cost = std::chrono::milliseconds(1);
    where.scenario.network.worker_link.latency = std::chrono::milliseconds(1);
    where.scenario.speed.heterogeneity = {.level = 20, .slow_fraction = 0.25};
    rb::cluster c{where, rb::ssp{.staleness = s}, integers{.rows = 4}};
    constexpr std::uint64_t clocks = 80;
    auto const report = c.run([&](auto& w) {
      std::vector<std::int64_t> one(1);
      for (std::uint64_t i = 0; i < clocks; ++i) {
        w.pull(std::vector{rb::key{2}}, one);
        w.push(std::vector{rb::key{2}}, std::vector<std::int64_t>{1});
        w.step(1);
      }
    });
    std::size_t slowest = 0;
    for (std::size_t k = 1; k < 4; ++k)
      if (report.workers[k].compute > report.workers[slowest].compute) slowest = k;
    INFO("s = " << s << ", asked " << report.workers[slowest].requests << " times");
    // It begins beside the others, so what it reads first is not ahead of it.
    CHECK(report.workers[slowest].requests <= clocks / static_cast<std::uint64_t>(s + 1) + 1);
    CHECK(report.workers[slowest].requests >= clocks / static_cast<std::uint64_t>(2 * s + 2));
  }
}
