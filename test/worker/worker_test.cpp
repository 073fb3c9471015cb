// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/worker.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/simulated.hpp>

namespace rb = rubato;
using namespace std::chrono_literals;

namespace {

/// Two workers; the one of rank 0 takes `slowness` times as long for a step.
rb::simulated two_workers(double slowness, std::uint32_t servers = 2) {
  return {.workers = 2, .servers = servers, .scenario = {.speed = {.slowness = {slowness, 1.0}}}};
}

using seen = std::vector<double>;

/// Both workers pull, push 1 to a row of their own, and step, `clocks` times. Returns what rank 0
/// read of the other's row at each clock.
template <class Cluster>
seen others_updates(Cluster& cluster, int clocks, rb::run_report& report) {
  seen out;
  report = cluster.run([&](auto& worker) {
    std::vector<double> w(2);
    std::vector<double> u(2);
    u[worker.rank()] = 1.0;
    for (int c = 0; c < clocks; ++c) {
      worker.pull(w);
      if (worker.rank() == 0) out.push_back(w[1]);
      worker.push(u);
      worker.step(1000.0);  // long beside the latency
    }
  });
  return out;
}

}  // namespace

TEST_CASE("worker: under SSP(s) the slowest worker contacts the servers once every s + 1 clocks, "
          "and sees news only then (001 §3, rules §2)") {
  for (std::int64_t const s : {0, 1, 3}) {
    rb::cluster cluster{two_workers(10.0), rb::ssp{.staleness = s}, rb::dense<double>{.rows = 2}};
    rb::run_report report;
    seen const others = others_updates(cluster, 24, report);
    INFO("s = " << s);
    CHECK(report.workers[0].fetches == static_cast<std::uint64_t>(24 / (s + 1)));
    for (std::size_t c = 0; c < others.size(); ++c) {
      std::size_t const fetched = c - c % static_cast<std::size_t>(s + 1);
      CHECK(others[c] == others[fetched]);
      CHECK(others[c] >= static_cast<double>(static_cast<std::int64_t>(c) - s));  // SSP-1
    }
    CHECK(report.workers[0].pulls == 24);
    CHECK(report.workers[0].wait == 0ns);
  }
}

TEST_CASE("worker: under SSP(s) nobody reads beyond s clocks ahead, nor misses what is s + 1 "
          "behind (SSP-1, SSP-3)") {
  rb::cluster cluster{two_workers(0.1), rb::ssp{.staleness = 2}, rb::dense<double>{.rows = 2}};
  rb::run_report report;
  seen const others = others_updates(cluster, 20, report);  // rank 0 is the fast one here
  for (std::size_t c = 0; c < others.size(); ++c) {
    CHECK(others[c] >= static_cast<double>(c) - 2);
    CHECK(others[c] <= static_cast<double>(c));
  }
  CHECK(report.workers[0].wait > 0ns);
}

TEST_CASE("worker: under BSP every clock fetches once, and sees all of the clocks before and "
          "nothing else (rules §2, BSP)") {
  for (double const slowness : {10.0, 0.1}) {
    rb::cluster cluster{two_workers(slowness), with(rb::bsp{}, rb::sum{}),
                        rb::dense<double>{.rows = 2}};
    rb::run_report report;
    seen const others = others_updates(cluster, 12, report);
    for (std::size_t c = 0; c < others.size(); ++c) CHECK(others[c] == static_cast<double>(c));
    CHECK(report.workers[0].fetches == 12);
    CHECK(report.workers[1].fetches == 12);
    CHECK(report.total().staleness[0] == 24);
  }
}

TEST_CASE("worker: under ASP every clock fetches once, and nobody waits (rules §2)") {
  rb::cluster cluster{two_workers(7.0), rb::asp{}, rb::dense<double>{.rows = 2}};
  rb::run_report report;
  seen const others = others_updates(cluster, 12, report);
  CHECK(std::ranges::is_sorted(others));
  CHECK(others.front() == 0.0);
  CHECK(others.back() == 12.0);
  CHECK(report.workers[0].fetches == 12);
  CHECK(report.workers[1].fetches == 12);
  CHECK(report.total().wait == 0ns);
}

TEST_CASE("worker: between commits reads come from the replica, and cost nothing (rules §2)") {
  rb::cluster cluster{rb::simulated{}, with(rb::bsp{}, rb::every{10}),
                      rb::dense<double>{.rows = 3}};
  auto const report = cluster.run([&](auto& worker) {
    std::vector<double> w(3);
    std::vector<std::uint64_t> const keys{2, 0};
    std::vector<double> two(2);
    for (int i = 0; i < 20; ++i) {
      worker.pull(w);
      auto const before = worker.now();
      worker.pull(w);
      worker.pull(keys, two);
      CHECK(worker.now() == before);
      CHECK(worker.steps_since_commit() == i % 10);
      CHECK(worker.step(0.0) == (i % 10 == 9));
    }
  });
  CHECK(report.workers[0].fetches == 2);
  CHECK(report.workers[0].pulls == 60);
  CHECK(report.workers[0].commits == 2);
}

TEST_CASE("worker: a read with a staleness of its own waits for it, and sees everything (rules "
          "§2)") {
  rb::cluster cluster{two_workers(0.1), rb::ssp{.staleness = 3}, rb::dense<double>{.rows = 2}};
  auto const report = cluster.run([&](auto& worker) {
    std::vector<double> w(2);
    std::vector<double> u(2);
    u[worker.rank()] = 1.0;
    for (int c = 0; c < 8; ++c) {
      worker.pull(w);
      if (worker.rank() == 0 && c == 3) {
        CHECK(w[1] == 0.0);  // the other is slow
        std::vector<std::uint64_t> const keys{1};
        std::vector<double> one(1);
        worker.pull(keys, one);
        CHECK(one[0] == 0.0);
        auto const fetches = worker.metrics().fetches;
        worker.pull(keys, one, rb::staleness{2});
        CHECK(one[0] >= 1.0);
        worker.pull(w, rb::staleness{0});
        CHECK(w == seen{3.0, 3.0});
        CHECK(worker.metrics().fetches == fetches + 2);
        worker.pull(w);  // what it has is fresher than it must be
        CHECK(w == seen{3.0, 3.0});
        worker.pull(keys, one);
        CHECK(one[0] == 3.0);
        worker.pull(keys, one, rb::staleness{0});
        CHECK(one[0] == 3.0);
        CHECK(worker.metrics().fetches == fetches + 2);
      }
      worker.push(u);
      worker.step(1000.0);
    }
  });
  CHECK(report.workers[0].wait > 0ns);
}

TEST_CASE("worker: under ASP, too, a read may ask for a staleness and gets it") {
  rb::cluster cluster{two_workers(0.1), rb::asp{}, rb::dense<double>{.rows = 2}};
  auto const report = cluster.run([&](auto& worker) {
    std::vector<double> w(2);
    std::vector<double> const u{0.0, 1.0};
    for (int c = 0; c < 5; ++c) {
      if (worker.rank() == 1) worker.push(u);
      if (worker.rank() == 0 && c == 4) {
        worker.pull(w);
        CHECK(w[1] == 0.0);
        worker.pull(w, rb::staleness{1});
        CHECK(w[1] == 3.0);
      }
      worker.step(1000.0);
    }
  });
  CHECK(report.workers[0].wait > 0ns);
}

TEST_CASE("worker: who only pushes waits as a reader does (rules §2)") {
  rb::cluster cluster{two_workers(0.1), rb::ssp{.staleness = 1}, rb::dense<double>{.rows = 2}};
  std::int64_t slow_clock = 0;
  std::int64_t widest = 0;
  cluster.run([&](auto& worker) {
    std::vector<double> const u{1.0, 1.0};
    for (int c = 0; c < 10; ++c) {
      if (worker.rank() == 1) slow_clock = worker.clock().value();
      worker.push(u);
      if (worker.rank() == 0) widest = std::max(widest, worker.clock().value() - slow_clock);
      worker.step(1000.0);
    }
  });
  CHECK(widest == 1);
  CHECK(cluster.parameters() == seen{20.0, 20.0});
}

TEST_CASE("worker: several pushes between steps travel together with the next commit") {
  rb::cluster cluster{rb::simulated{.servers = 2}, rb::ssp{}, rb::dense<double>{.rows = 4}};
  auto const report = cluster.run([&](auto& worker) {
    std::vector<std::uint64_t> const keys{3, 1, 3};
    worker.push(std::vector<double>{1, 1, 1, 1});
    worker.push(keys, std::vector<double>{10, 20, 30});
    worker.push(std::vector<double>{100, 0, 0, 0});
    CHECK(cluster.observe() == seen(4));
    CHECK(worker.clock() == rb::clock_index{0});
    worker.commit();
    CHECK(worker.clock() == rb::clock_index{1});
    std::vector<double> w(4);
    worker.pull(w);
    CHECK(w == seen{101, 21, 1, 41});
  });
  CHECK(cluster.parameters() == seen{101, 21, 1, 41});
  CHECK(report.workers[0].pushes == 3);
  CHECK(report.workers[0].commits == 1);
  CHECK(report.workers[0].steps == 0);
}

TEST_CASE("worker: what was pushed and not committed when the body ends is committed (rules §5)") {
  rb::cluster cluster{rb::simulated{}, with(rb::bsp{}, rb::every{10}),
                      rb::dense<double>{.rows = 1}};
  auto report = cluster.run([](auto& worker) {
    for (int i = 0; i < 13; ++i) {
      worker.push(std::vector<double>{1.0});
      worker.step();
    }
  });
  CHECK(cluster.parameters() == seen{13.0});
  CHECK(report.updates == 2);
  // Steps without a push leave nothing to commit.
  report = cluster.run([](auto& worker) {
    for (int i = 0; i < 13; ++i) worker.step();
  });
  CHECK(report.updates == 1);
  CHECK(cluster.parameters() == seen{13.0});
}

TEST_CASE("worker: knows its rank, how many there are, and has a random stream of its own, another in each run") {
  rb::simulated const where{.workers = 3, .scenario = {.seed = 5}};
  rb::cluster cluster{where, rb::asp{}, rb::dense<double>{.rows = 1}};
  std::vector<std::uint32_t> ranks;
  std::vector<std::uint64_t> draws;
  auto const body = [&](auto& worker) {
    ranks.push_back(worker.rank());
    CHECK(worker.count() == 3);
    CHECK(worker.id() == rb::worker_id{worker.rank()});
    draws.push_back(worker.random()());
    worker.step();
  };
  cluster.run(body);
  CHECK(ranks == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(draws[0] != draws[1]);
  CHECK(draws[1] != draws[2]);
  cluster.run(body);
  CHECK(std::set<std::uint64_t>(draws.begin(), draws.end()).size() == 6);
  std::vector<std::uint64_t> const expected = std::exchange(draws, {});
  rb::cluster again{where, rb::asp{}, rb::dense<double>{.rows = 1}};
  for (int run = 0; run < 2; ++run) again.run(body);
  CHECK(draws == expected);
}
