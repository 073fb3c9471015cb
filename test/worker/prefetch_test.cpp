// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/worker.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdint>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/fixed_ada_comm.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

namespace rb = rubato;
using namespace std::chrono_literals;

namespace {

constexpr rb::duration latency = 10ms;
constexpr rb::duration compute = 8ms;

/// One worker and one server, far from each other; a unit of work takes `compute`.
rb::simulated far_away() {
  rb::simulated s{.workers = 1, .servers = 1};
  s.scenario.network.worker_link.latency = latency;
  s.scenario.speed.work_cost = compute;
  return s;
}

enum class ahead { no, whole, rows };

/// Two local steps a clock, of which the first needs no parameters.
rb::run_report train(ahead how, int clocks) {
  rb::cluster cluster{far_away(), rb::fixed_ada_comm{.steps = 2}, rb::dense<double>{.rows = 4}};
  std::vector<std::uint64_t> const rows{1, 3};
  return cluster.run([&](auto& worker) {
    std::vector<double> all(4);
    std::vector<double> some(2);
    for (int c = 0; c < clocks; ++c) {
      if (how == ahead::whole) worker.prefetch();
      if (how == ahead::rows) worker.prefetch(rows);
      worker.step(1);
      if (how == ahead::rows) worker.pull(rows, std::span(some));
      else worker.pull(all);
      worker.push(std::vector<double>(4, 1.0));
      CHECK(worker.step(1));
    }
  });
}

}  // namespace

TEST_CASE("prefetch: the answer travels while the worker computes") {
  constexpr int clocks = 5;
  auto const plain = train(ahead::no, clocks);
  auto const how = GENERATE(ahead::whole, ahead::rows);
  auto const early = train(how, clocks);
  CHECK(early.workers[0].fetches == clocks);
  CHECK(plain.workers[0].fetches == clocks);
  // A fetch takes there and back, and the first step of a clock hides its part of that.
  CHECK(plain.elapsed - early.elapsed >= clocks * (compute - 1ms));
  CHECK(plain.elapsed - early.elapsed <= clocks * compute);
}

TEST_CASE("prefetch: what held the answer up while the worker computed was no waiting") {
  // Held until 100 ms, since the other one is late; then on its way for 160 ms, at 50 kB/s.
  auto const [computes, waits, moves] = GENERATE(table<rb::duration, rb::duration, rb::duration>(
      {{40ms, 60ms, 160ms}, {150ms, 0ms, 110ms}, {300ms, 0ms, 0ms}}));
  rb::simulated place{.workers = 2, .servers = 1};
  place.scenario.speed.work_cost = 1ms;
  place.scenario.network = {.worker_link = {.latency = 0ms}, .server_bandwidth = 50'000, .header_bytes = 0};
  place.scenario.machine_of = {0, 1};
  place.scenario.one_process_per_machine = GENERATE(false, true);
  rb::cluster cluster{place, with(rb::bsp{}, rb::every{2}), rb::dense<double>{.rows = 1000}};
  auto const report = cluster.run([&, work = rb::to_seconds(computes) * 1000](auto& worker) {
    worker.step(worker.rank() == 0 ? 0 : 100);
    worker.step(0);
    if (worker.rank() != 0) return;
    worker.prefetch();
    worker.step(work);
    std::vector<double> all(1000);
    worker.pull(all);
  });
  CHECK(report.workers[0].compute == computes);
  CHECK(report.workers[0].wait == waits);
  CHECK(report.workers[0].send == moves);
}

TEST_CASE("prefetch: reads are what they would be, and own pushes are in them") {
  rb::cluster cluster{rb::in_process{.workers = 2}, rb::ssp{.staleness = 1},
                      rb::dense<std::int64_t>{.rows = 8}, rb::sparse<std::int64_t>{}};
  std::vector<std::uint64_t> const rows{2, 5};
  std::atomic<int> wrong_own = 0;
  std::atomic<int> too_old = 0;
  cluster.run([&](auto& worker) {
    std::vector<std::int64_t> all(8);
    std::vector<std::int64_t> some(2);
    std::vector<std::int64_t> one(8);
    one[worker.rank()] = 1;
    for (std::int64_t c = 0; c < 50; ++c) {
      switch (c % 5) {
        case 0: worker.prefetch(); break;
        case 1: worker.prefetch(rows); break;
        case 2: worker[rb::table<1>].prefetch(); break;
        case 3: worker[rb::table<1>].prefetch(rows); break;
        default: break;
      }
      if (c % 2 == 0) worker.push(one);
      if (c % 3 == 0) worker[rb::table<1>].pull(rows, std::span(some));
      worker.pull(all);
      if (all[worker.rank()] != c + (c % 2 == 0 ? 1 : 0)) ++wrong_own;
      if (all[1 - worker.rank()] < c - 2) ++too_old;
      if (c % 2 != 0) worker.push(one);
      worker.step();
      if (c % 7 == 0) worker.prefetch();  // nothing comes after it in the last clock
    }
    worker.prefetch();
  });
  CHECK(wrong_own == 0);
  CHECK(too_old == 0);
  CHECK(cluster.parameters() == std::vector<std::int64_t>{50, 50, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("prefetch: what is cached is not asked for, and one is enough") {
  rb::cluster cluster{far_away(), rb::fixed_ada_comm{.steps = 2}, rb::dense<double>{.rows = 4}};
  auto const report = cluster.run([&](auto& worker) {
    std::vector<double> all(4);
    worker.pull(all);
    worker.prefetch();
    worker.prefetch(std::vector<std::uint64_t>{1});
    worker.pull(all);
    CHECK(worker.metrics().fetches == 1);
    worker.step();
    worker.step();
    worker.prefetch();
    worker.prefetch();
    worker.pull(all);
  });
  CHECK(report.workers[0].fetches == 2);
}

TEST_CASE("prefetch: under partition synchronization nothing is asked for early") {
  rb::simulated place = far_away();
  place.workers = 2;
  rb::cluster cluster{place, rb::basic_ssp<rb::stable_cut>{.staleness = 1}, rb::dense<double>{.rows = 4}};
  auto const report = cluster.run([&](auto& worker) {
    std::vector<double> all(4);
    for (int c = 0; c < 5; ++c) {
      worker.prefetch();
      worker.prefetch(std::vector<std::uint64_t>{1});
      CHECK(worker.metrics().fetches <= static_cast<std::uint64_t>(c));
      worker.pull(all);
      worker.push(std::vector<double>(4, 1.0));
      worker.step();
    }
  });
  CHECK(report.updates == 10);
}
