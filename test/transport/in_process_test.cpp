// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/in_process.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <system_error>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/ada_comm.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>

#include "no_more_threads.hpp"

namespace rb = rubato;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

using counts = std::vector<std::int64_t>;
using dense_counts = rb::dense<std::int64_t, rb::sum>;

/// Workers push 1 to all rows of one table, and to two rows of another; both are checked in the
/// end, and on the way what each one reads is checked against the protocol's promise.
template <rb::protocol P>
void count_in_threads(P p, std::int64_t s, std::chrono::microseconds busy_poll = rb::usual_busy_poll) {
  constexpr std::uint32_t workers = 4;
  constexpr std::int64_t clocks = 60;
  rb::cluster cluster{rb::in_process{.workers = workers, .servers = 3, .busy_poll = busy_poll}, p,
                      dense_counts{.rows = 20'000}, rb::sparse<std::int64_t, rb::sum>{}};
  std::atomic<int> wrong = 0;
  auto const report = cluster.run([&](auto& worker) {
    counts w(20'000);
    counts const one(20'000, 1);
    for (std::int64_t c = 0; c < clocks; ++c) {
      worker.pull(w);
      // Own updates, and of each other worker those with stamps below c − s (SSP-1, SSP-2).
      std::int64_t const least = c + (workers - 1) * std::max<std::int64_t>(0, c - s);
      wrong += *std::ranges::min_element(w) < least;
      wrong += *std::ranges::max_element(w) > c + (workers - 1) * clocks;
      worker.push(one);
      std::vector<std::uint64_t> const keys{worker.rank(), 1000};
      worker[rb::table<1>].push(keys, counts{1, 1});
      worker.step();
    }
  });
  CHECK(wrong == 0);
  CHECK(cluster.parameters() == counts(20'000, workers * clocks));
  auto const& rare = cluster.template parameters<1>();
  CHECK(rare.keys == std::vector<std::uint64_t>{0, 1, 2, 3, 1000});
  CHECK(rare.values == counts{clocks, clocks, clocks, clocks, workers * clocks});
  CHECK(report.updates == workers * clocks);
  CHECK(report.servers.commits == 3 * workers * clocks);
  CHECK(report.total().commits == workers * clocks);
  CHECK(report.total().pulls == workers * clocks);
  CHECK_FALSE(report.virtual_time);
}

}  // namespace

TEST_CASE("in_process: SSP in threads loses no update, and every read keeps its promise "
          "(SSP-1, SSP-2)") {
  count_in_threads(rb::ssp{.staleness = 2}, 2);
}

TEST_CASE("in_process: strict SSP in threads, too (SSP-1, SSP-2)") {
  count_in_threads(with(rb::ssp{.staleness = 1}, rb::strict{}), 1);
}

TEST_CASE("in_process: it is the same whether who waits sleeps at once or looks for long") {
  for (auto const busy_poll : {0us, rb::longest_busy_poll}) count_in_threads(rb::ssp{.staleness = 0}, 0, busy_poll);
}

TEST_CASE("in_process: ASP in threads loses no update") {
  count_in_threads(rb::asp{}, std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("in_process: compute, send and wait add up to a worker's time, and none is negative "
          "(rules §8)") {
  rb::cluster cluster{rb::in_process{.workers = 2, .slowness = {1.0, 4.0}}, rb::ssp{.staleness = 0},
                      dense_counts{.rows = 8}};
  auto const report = cluster.run([](auto& worker) {
    counts w(8);
    for (int c = 0; c < 20; ++c) {
      worker.pull(w);
      worker.push(w);
      worker.step();
    }
  });
  for (auto const& w : report.workers) {
    CHECK(w.compute >= 0ns);
    CHECK(w.send >= 0ns);
    CHECK(w.wait >= 0ns);
    CHECK(w.total() <= report.elapsed);
    CHECK(w.total() > 0ns);
  }
}

TEST_CASE("in_process: options that cannot be meant are option_errors") {
  auto const make = [](rb::in_process options) {
    rb::cluster const made{std::move(options), rb::asp{}, dense_counts{.rows = 8}};
    (void)made;
  };
  CHECK_NOTHROW(make({}));
  CHECK_THROWS_WITH(make({.workers = 0}), Contains("workers must be at least 1"));
  CHECK_THROWS_WITH(make({.servers = 0}), Contains("servers"));
  CHECK_THROWS_WITH(make({.slowness = {1.0, 0.5}}), Contains("slowness"));
  CHECK_NOTHROW(make({.busy_poll = rb::longest_busy_poll}));
  for (auto const wrong : {-1us, rb::longest_busy_poll + 1us})
    CHECK_THROWS_WITH(make({.busy_poll = wrong}), Contains("busy_poll must be between 0 and 10000 microseconds"));
  CHECK_THROWS_AS(make({.slowness = {std::numeric_limits<double>::quiet_NaN()}}), rb::option_error);
}

TEST_CASE("in process: where there is no thread for a worker, the error says so, and the next run has one") {
  rb::cluster c{rb::in_process{.workers = 2}, rb::asp{}, rb::dense<float>{.rows = 8}};
  {
    rb::test::no_more_threads const limit;
    CHECK_THROWS_AS(c.run([](auto&) {}), std::system_error);
    CHECK_THROWS_WITH(c.run([](auto&) {}), Catch::StartsWith("a thread for worker 0 cannot be started: "));
  }
  CHECK(c.run([](auto& w) { w.commit(); }).updates == 2);
}

// A race that the thread sanitizer sees.
TEST_CASE("in_process: a body may add workers while the conductor's thread is being started") {
  for (int run = 0; run < 20; ++run) {
    rb::cluster cluster{rb::in_process{.workers = 2}, rb::ada_comm{.first_steps = 2}, rb::dense<double>{.rows = 4}};
    auto const report = cluster.run([&](auto& worker) {
      if (worker.rank() == 0) cluster.add_worker();
    });
    CHECK(report.workers.size() == 3);
  }
}
