// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Versions and cuts where workers are threads: what random schedules check in virtual time, here
// with real races.

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <vector>

#include <rubato/rubato.hpp>
#include <rubato/server/server_group.hpp>

using namespace rubato;

namespace {

constexpr std::uint32_t thread_count = 4;
constexpr std::uint32_t servers = 3;
constexpr std::uint64_t counter_rows = 12;
constexpr std::int64_t clocks_each = 60;

using counters = dense<std::int64_t, sum, hash>;

/// Every worker adds one to its column of every row in each clock. Returns how many reads saw
/// another worker's commits on some servers only; reads of its own must show them all.
template <class Protocol>
std::int64_t torn_reads(Protocol p) {
  cluster c{in_process{.workers = thread_count, .servers = servers}, p,
            counters{.rows = counter_rows, .width = thread_count}};
  std::atomic<std::int64_t> torn = 0;
  std::atomic<std::int64_t> lost = 0;
  std::atomic<std::int64_t> stale = 0;
  c.run([&](auto& worker) {
    std::vector<std::int64_t> seen(counter_rows * thread_count);
    std::vector<std::int64_t> mine(counter_rows * thread_count);
    for (std::size_t r = 0; r < counter_rows; ++r) mine[r * thread_count + worker.rank()] = 1;
    for (std::int64_t i = 0; i < clocks_each; ++i) {
      worker.pull(seen);
      bool whole = true;
      for (std::size_t r = 0; r < counter_rows; ++r)
        for (std::size_t w = 0; w < thread_count; ++w) {
          std::int64_t const n = seen[r * thread_count + w];
          if (w == worker.rank()) lost += n != i;
          else whole = whole && n == seen[w];
          stale += n < i - 2;
        }
      torn += !whole;
      worker.push(mine);
      worker.step();
    }
  });
  CHECK(lost == 0);
  CHECK(stale == 0);
  for (std::int64_t const n : c.parameters()) CHECK(n == clocks_each);
  return torn;
}

/// All updates are equal, so that each version is worth one of them however many share it.
template <class Protocol>
void check_versions(Protocol p) {
  cluster c{in_process{.workers = thread_count, .servers = servers}, p,
            multi_version{dense<double, merge_of_protocol, hash>{.rows = counter_rows}}};
  for (int run = 0; run < 2; ++run) {
    auto const report = c.run([&](auto& worker) {
      std::vector<double> w(counter_rows);
      std::vector<double> const u(counter_rows, 1.0);
      for (std::int64_t i = 0; i < clocks_each; ++i) {
        worker.pull(w);
        worker.push(u);
        worker.step();
      }
    });
    CHECK(report.updates == thread_count * clocks_each);
    CHECK(report.versions_peak >= 1);
  }
  auto const& w = c.parameters();
  for (double const x : w) {
    CHECK(x == Approx(w[0]));
    CHECK(x == Approx(std::round(x)).margin(1e-9));
    CHECK(x >= 2 * clocks_each);           // each worker's clocks are of different versions
    CHECK(x <= 2 * thread_count * clocks_each);
  }
  for (std::uint32_t s = 0; s < servers; ++s)
    CHECK(c.servers().server(server_id{s}).memory().versions == 0);
}

}  // namespace

TEST_CASE("stable_cut in threads: a pull sees the same commits on every server (PS-1)",
          "[cluster][stable_cut]") {
  CHECK(torn_reads(with(ssp{.staleness = 2}, stable_cut{})) == 0);
  CHECK(torn_reads(with(ssp{.staleness = 0}, stable_cut{})) == 0);
}

TEST_CASE("dyn_sgd in threads: versions are whole on every server, and none is left over",
          "[cluster][dyn_sgd]") {
  check_versions(dyn_sgd{.staleness = 2});
  check_versions(with(dyn_sgd{.staleness = 2}, strict{}));
}

TEST_CASE("dyn_sgd in threads, synchronized", "[cluster][dyn_sgd][stable_cut]") {
  check_versions(with(dyn_sgd{.staleness = 2}, stable_cut{}));
}

TEST_CASE("dyn_sgd in threads: workers join under way and leave early", "[cluster][dyn_sgd]") {
  auto const go = [](auto p) {
    cluster c{in_process{.workers = 3, .servers = servers}, p,
              multi_version{sparse<double, merge_of_protocol, hash>{}}};
    c.run([&](auto& worker) {
      sparse_snapshot<double> w;
      std::vector<std::uint64_t> const keys{1, 5, 1'000'000'007};
      std::vector<double> const u(3, 1.0);
      std::int64_t const mine = clocks_each / (1 + worker.rank());
      for (std::int64_t i = 0; i < mine; ++i) {
        worker[table<0>].pull(w);
        worker.push(keys, u);
        worker.step();
        if (worker.rank() < 2 && i == 5) c.add_worker();
      }
    });
    auto const& w = c.parameters();
    REQUIRE(w.keys == std::vector<std::uint64_t>{1, 5, 1'000'000'007});
    for (double const x : w.values) CHECK(x == Approx(std::round(x)).margin(1e-9));
    for (std::uint32_t s = 0; s < servers; ++s)
      CHECK(c.servers().server(server_id{s}).memory().versions == 0);
  };
  go(dyn_sgd{.staleness = 1});
  go(with(dyn_sgd{.staleness = 1}, stable_cut{}));
}

TEST_CASE("dyn_sgd in threads: who only pushes, and fast, starves no reader and piles nothing up",
          "[cluster][dyn_sgd]") {
  constexpr std::uint64_t size = 20'000;
  cluster c{in_process{.workers = 4}, with(asp{}, revise{}),
            multi_version{dense<float>{.rows = size}}};
  std::atomic<std::size_t> held = 0;
  c.run([&](auto& worker) {
    std::vector<float> w(size, 1.0F);
    if (worker.rank() != 0) {
      for (;;) {  // until the reader ends the run
        worker.push(w);
        worker.step();
      }
    }
    for (int i = 0; i < 50; ++i) {
      worker.pull(w);
      worker.step();
      std::size_t const now = c.servers().server(server_id{0}).inspect(
          [](auto const& control) { return control.held_back(); });
      held = std::max(held.load(), now);
    }
    c.stop();
  });
  CHECK(held <= 4);
}
