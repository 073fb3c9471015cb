// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Threads that share what they fetch.
#include <rubato/transport/threads/thread_process.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
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

constexpr std::int64_t clocks_each = 15;
constexpr std::uint64_t common_rows = 6;  // to which all push; row common_rows + m is worker m's alone

/// A cluster by chance, whose workers share what their processes fetch. In each of its two tables of integers
/// a commit of worker m adds 1 to each common row and to its own.
struct random_caches {
  explicit random_caches(std::uint64_t number) : seed(number) {
    rb::random_stream random(seed, 0);
    workers = static_cast<std::uint32_t>(2 + random.below(4));
    servers = static_cast<std::uint32_t>(1 + random.below(3));
    s = static_cast<std::int64_t>(random.below(4));
    strict = random.chance(0.4);
    cached = random.chance(0.5) ? 0 : 1 + random.below(4);
  }

  [[nodiscard]] std::uint64_t rows() const { return common_rows + workers; }
  [[nodiscard]] rb::rules protocol() const {
    if (strict && s == 0) return with(rb::bsp{}, rb::sum{});
    if (strict) return with(rb::ssp{.staleness = s}, rb::strict{});
    return rb::ssp{.staleness = s};
  }
  /// Several threads on a machine, some slow, and messages that take their time.
  [[nodiscard]] rb::simulated in_virtual_time() const {
    using namespace std::chrono_literals;
    rb::random_stream random(seed, 0x51);
    rb::simulated where{.workers = workers, .servers = servers};
    where.scenario.seed = seed;
    where.scenario.speed.work_cost = 1ms;
    where.scenario.speed.heterogeneity = {.level = 1.0 + 5 * random.uniform(), .slow_fraction = 0.4};
    where.scenario.network.worker_link.latency = rb::stretch(3ms, random.uniform());
    where.scenario.network.worker_link.jitter = rb::sim::lognormal{.sigma = 1};
    where.scenario.one_process_per_machine = true;
    for (std::uint32_t w = 0; w < workers; ++w)
      where.scenario.machine_of.push_back(static_cast<std::uint32_t>(random.below(1 + workers / 3)));
    return where;
  }

  std::uint64_t seed;
  std::uint32_t workers, servers;
  std::int64_t s;
  bool strict;
  std::uint64_t cached;  ///< rows in a cache; 0: all
};

/// What all workers of a run write to.
struct caches_notes {
  explicit caches_notes(std::size_t workers) : clocks(workers) {}
  std::vector<std::atomic<std::int64_t>> clocks;  ///< at which each may be by now
  std::atomic<int> wrong = 0;
};

/// Reads, prefetches and pushes at random, and knows what it may see.
template <class Worker>
class checking_worker {
 public:
  checking_worker(Worker& w, random_caches const& is, caches_notes& notes)
      : worker_(w), is_(is), notes_(notes), random_(is.seed, 1 + w.rank()) {}

  void run() {
    for (; clock_ < clocks_each; ++clock_) {
      read();
      push(worker_[rb::table<0>]);
      push(worker_[rb::table<1>]);
      pushed_ = clock_ + 1;
      if (random_.chance(0.4)) read();
      notes_.clocks[worker_.rank()] = clock_ + 1;
      worker_.step(2 * random_.uniform());
    }
    if (random_.chance(0.5)) worker_.prefetch();  // and leaves
  }

 private:
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(end)));
  }
  void read() {
    if (random_.chance(0.2)) read_all();
    if (random_.chance(0.1)) read_touched();
    if (random_.chance(0.1)) worker_.prefetch();
    if (random_.chance(0.7)) read_rows(worker_[rb::table<0>]);
    if (random_.chance(0.5)) read_rows(worker_[rb::table<1>]);
    if (random_.chance(0.3)) read_both();
  }
  void read_both() {
    std::vector<std::int64_t> all(is_.rows()), some(is_.rows());
    std::vector<rb::key> keys;
    for (std::uint64_t row = random_.below(3); row < is_.rows(); ++row) keys.push_back(rb::key{row});
    some.resize(keys.size());
    std::int64_t const bound = random_.chance(0.3) ? below(is_.s + 1) : is_.s;
    worker_.pull_together({worker_[rb::table<1>].into(keys, some), worker_[rb::table<0>].into(all)},
                          rb::staleness{bound});
    for (std::uint64_t row = 0; row < all.size(); ++row) check(row, all[row], bound);
    for (std::size_t i = 0; i < keys.size(); ++i) check(keys[i].value(), some[i], bound);
  }
  void read_all() {
    std::vector<std::int64_t> all(is_.rows());
    worker_.pull(all);
    for (std::uint64_t row = 0; row < all.size(); ++row) check(row, all[row], is_.s);
  }
  void read_touched() {
    rb::sparse_snapshot<std::int64_t> touched;
    worker_[rb::table<1>].pull(touched);
    for (std::size_t i = 0; i < touched.keys.size(); ++i) check(touched.keys[i], touched.values[i], is_.s);
  }
  template <class Table>
  void read_rows(Table t) {
    std::vector<rb::key> keys;
    for (std::uint64_t n = 1 + random_.below(3); n != 0; --n) keys.push_back(rb::key{random_.below(is_.rows())});
    if (random_.chance(0.4)) t.prefetch(keys);
    if (random_.chance(0.1)) return;
    std::int64_t const bound = random_.chance(0.3) ? below(is_.s + 1) : is_.s;
    std::vector<std::int64_t> seen(keys.size());
    t.pull(keys, seen, rb::staleness{bound});
    for (std::size_t i = 0; i < keys.size(); ++i) check(keys[i].value(), seen[i], bound);
  }
  /// In one push, or row by row.
  template <class Table>
  void push(Table t) {
    std::vector<rb::key> keys{rb::key{common_rows + worker_.rank()}};
    for (std::uint64_t row = 0; row < common_rows; ++row) keys.push_back(rb::key{row});
    if (random_.chance(0.5)) return t.push(keys, std::vector<std::int64_t>(keys.size(), 1));
    for (rb::key const k : keys) t.push(std::array{k}, std::array<std::int64_t, 1>{1});
  }

  void check(std::uint64_t row, std::int64_t seen, std::int64_t bound) {
    std::int64_t const least = std::max<std::int64_t>(0, clock_ - bound);                       // SSP-1
    std::int64_t const most = std::min(clocks_each, clock_ + is_.s + (is_.strict ? 0 : 1));     // SSP-4
    bool const common = row < common_rows, own = row == common_rows + worker_.rank();
    std::int64_t const mine = common || own ? pushed_ : 0;                                      // SSP-2
    std::int64_t const others = common ? is_.workers - 1 : own ? 0 : 1;
    bool good = seen >= mine + others * least && seen <= mine + others * most;
    for (auto const& c : notes_.clocks) good = good && c >= clock_ - bound;                     // SSP-3
    if (!good) ++notes_.wrong;
  }

  Worker& worker_;
  random_caches const& is_;
  caches_notes& notes_;
  rb::random_stream random_;
  std::int64_t clock_ = 0;
  std::int64_t pushed_ = 0;
};

/// Returns how many requests the caches of processes answered.
template <class Transport>
std::uint64_t check_caches(Transport const& where, random_caches const& is) {
  caches_notes notes(is.workers);
  rb::cluster c{where, is.protocol(), integers{.rows = is.rows(), .cached_rows = is.cached},
                rb::sparse<std::int64_t, rb::sum>{.rows = 100, .cached_rows = is.cached}};
  rb::worker_metrics const all = c.run([&](auto& w) { checking_worker(w, is, notes).run(); }).total();
  REQUIRE(notes.wrong == 0);
  auto const dense = c.template parameters<0>();
  auto const sparse = c.template parameters<1>();
  REQUIRE(sparse.keys.size() == is.rows());
  for (std::uint64_t row = 0; row < is.rows(); ++row) {
    std::int64_t const total = row < common_rows ? is.workers * clocks_each : clocks_each;
    REQUIRE(dense[row] == total);
    REQUIRE(sparse.values[row] == total);
  }
  REQUIRE(all.fetches <= all.requests + all.process_hits);
  return all.process_hits;
}

template <class WhereOf>
void check_caches_at_random(WhereOf where_of) {
  std::uint64_t hits = 0;
  for (std::uint64_t run = 0; run < rb::test::seed_count(500); ++run) {
    std::uint64_t const seed = rb::test::first_seed() + run;
    INFO(rb::test::repeat_by(seed));
    random_caches const is(seed);
    hits += check_caches(where_of(is), is);
  }
  if (rb::test::seed_count(500) >= 50) CHECK(hits > rb::test::seed_count(500));  // or nothing was shared
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

TEST_CASE("in process: through both caches reads keep SSP-1 to SSP-4, and totals are exact", "[threads]") {
  check_caches_at_random([](random_caches const& is) { return one_process(is.workers, is.servers); });
}

TEST_CASE("simulated: through both caches reads keep SSP-1 to SSP-4, and totals are exact") {
  check_caches_at_random([](random_caches const& is) { return is.in_virtual_time(); });
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
