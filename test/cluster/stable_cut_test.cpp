// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

#include <rubato/rubato.hpp>

using namespace rubato;
using namespace std::chrono_literals;

TEST_CASE("stable_cut: rows that one call reads by key are of one cut, cached or not (PS-1)",
          "[cluster][stable_cut]") {
  // Worker 1 adds 1 to every row in each of its commits, and is the faster one.
  auto const go = [](auto p) {
    cluster c{simulated{.workers = 2,
                        .servers = 3,
                        .scenario = {.speed = {.work_cost = 1ms, .slowness = {3, 1}}}},
              p, dense<std::int64_t, sum, hash>{.rows = 12}};
    std::int64_t torn = 0;
    c.run([&](auto& worker) {
      std::vector<std::int64_t> const one(12, 1);
      for (std::uint64_t i = 0; i < 20; ++i) {
        if (worker.rank() == 1) {
          worker.push(one);
        } else {
          std::vector<std::uint64_t> const few{i % 12}, more{i % 12, (i + 1) % 12, (i + 7) % 12};
          std::vector<std::int64_t> first(1), seen(3);
          worker.pull(few, first);
          worker.step();
          worker.pull(more, seen);
          torn += seen[0] != seen[1] || seen[1] != seen[2];
        }
        worker.step();
      }
    });
    return torn;
  };
  CHECK(go(with(ssp{.staleness = 3}, stable_cut{})) == 0);
  CHECK(go(ssp{.staleness = 3}) > 0);
}

TEST_CASE("stable_cut: a worker that only pushes does not keep its commits for ever",
          "[cluster][stable_cut]") {
  cluster c{simulated{.workers = 1}, with(asp{}, stable_cut{}), dense<double>{.rows = 4}};
  auto const report = c.run([](auto& worker) {
    for (int i = 0; i < 500; ++i) {
      worker.push(std::vector<double>(4, 1.0));
      worker.step();
    }
    std::vector<double> w(4);
    worker.pull(w);
    CHECK(w == std::vector<double>(4, 500.0));
  });
  // It asked for the news now and then, though nothing made it wait.
  CHECK(report.total().bytes_received > 5 * sizeof(clock_index));
  CHECK(c.parameters() == std::vector<double>(4, 500.0));
}

TEST_CASE("stable_cut: what is seen after a run that was stopped is what the next one starts from",
          "[cluster][stable_cut]") {
  cluster c{simulated{.workers = 2}, with(ssp{.staleness = 2}, stable_cut{}),
            dense<double>{.rows = 1}};
  c.run([&](auto& worker) {
    for (int i = 0; i < 20; ++i) {
      worker.push(std::vector<double>{1});
      worker.step();
      if (i == 7) c.stop();
    }
  });
  double const seen = c.parameters()[0];
  CHECK(seen > 0);
  std::vector<double> w(1);
  c.run([&](auto& worker) {
    if (worker.rank() == 0) worker.pull(w);
  });
  CHECK(w[0] == seen);
}

TEST_CASE("update_filter: only what was pushed is committed at the end, leftovers never alone",
          "[cluster][update_filter]") {
  auto const go = [](small_entries rest, bool ends_with_commit) {
    cluster c{simulated{}, ssp{},
              dense<double>{.rows = 2, .filter = {.threshold = 1, .small = rest}}};
    auto const report = c.run([&](auto& worker) {
      worker.push(std::vector<double>{10, 0.5});
      if (ends_with_commit) worker.commit();
    });
    CHECK(report.updates == 1);
    return c.parameters();
  };
  using values = std::vector<double>;
  CHECK(go(small_entries::drop, false) == values{10, 0});
  CHECK(go(small_entries::drop, true) == values{10, 0});
  CHECK(go(small_entries::carry, false) == values{10, 0.5});
  CHECK(go(small_entries::carry, true) == values{10, 0});
}
