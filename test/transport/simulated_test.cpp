// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/simulated.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>

namespace rb = rubato;
using namespace std::chrono_literals;

namespace {

using table = rb::dense<float>;
template <class P>
using simulation = rb::cluster<rb::simulated, P, table>;

constexpr std::uint64_t rows = 10;

/// Pull, push, step of `work` units: `clocks` times.
auto training(int clocks, double work) {
  return [=](auto& worker) {
    std::vector<float> w(rows);
    std::vector<float> const u(rows, 1.0F);
    for (int c = 0; c < clocks; ++c) {
      worker.pull(w);
      worker.push(u);
      worker.step(work);
    }
  };
}

/// One unit of work takes 1 us, a message 100 us.
rb::run_report bsp_run(rb::simulated options, int clocks, double work) {
  simulation<rb::bsp> cluster(std::move(options), rb::bsp{}, {.rows = rows});
  return cluster.run(training(clocks, work));
}

rb::run_report asp_run(rb::simulated options, int clocks, double work) {
  simulation<rb::asp> cluster(std::move(options), rb::asp{}, {.rows = rows});
  return cluster.run(training(clocks, work));
}

void check_books(rb::run_report const& report, bool same_end) {
  for (auto const& w : report.workers) {
    CHECK(w.compute >= 0ns);
    CHECK(w.send >= 0ns);
    CHECK(w.wait >= 0ns);
    if (same_end) CHECK(w.total() <= report.elapsed);
  }
  auto const longest = std::ranges::max(
      report.workers, {}, [](rb::worker_metrics const& w) { return w.total(); });
  CHECK(longest.total() == report.elapsed);
}

rb::sim::scenario noisy(std::uint64_t seed) {
  return {.speed = {.work_cost = 3us,
                    .random_slowdown = {.probability = 0.2},
                    .jitter = rb::sim::lognormal{.sigma = 0.5}},
          .network = {.worker_link = {.jitter = rb::sim::exponential{}, .bandwidth = 50'000'000},
                      .server_bandwidth = 20'000'000},
          .seed = seed};
}

}  // namespace

TEST_CASE("simulated: one worker's clock takes a round trip and its work, to the nanosecond") {
  for (std::uint32_t const servers : {1U, 3U}) {
    auto const report = bsp_run({.servers = servers}, 5, 1000.0);
    CHECK(report.elapsed == 5 * (2 * 100us + 1000us));
    CHECK(report.workers[0].compute == 5 * 1000us);
    CHECK(report.workers[0].send == 5 * 2 * 100us);
    CHECK(report.workers[0].wait == 0us);
    CHECK(report.virtual_time);
  }
  // Work is priced by the scenario.
  CHECK(bsp_run({.scenario = {.speed = {.work_cost = 7ns}}}, 3, 11.0).elapsed ==
        3 * (200us + 77ns));
  CHECK(bsp_run({.scenario = {.network = {.worker_link = {.latency = 0us}}}}, 3, 1.0).elapsed ==
        3us);
}

TEST_CASE("simulated: a commit holds its sender up for as long as its bytes take to leave") {
  // A byte takes 1 us. A request is a header of 64 bytes, a reply has 40 bytes of floats, a commit
  // as well; what a message takes at both cards overlaps.
  auto const report = bsp_run(
      {.scenario = {.network = {.worker_link = {.latency = 10us, .bandwidth = 1'000'000}}}}, 4,
      50.0);
  // Request 64 + 10, reply 104 + 10, work 50, commit 104; from the second clock on the request
  // starts when the commit has left.
  CHECK(report.elapsed == 4 * (74us + 114us + 50us + 104us));
  CHECK(report.workers[0].compute == 4 * 50us);
  CHECK(report.workers[0].send == 4 * (74us + 114us + 104us));
  CHECK(report.workers[0].bytes_sent == 4 * 40);
  CHECK(report.workers[0].bytes_received == 4 * 40);
}

TEST_CASE("simulated: under BSP every clock takes as long as the slowest worker's, and the fast "
          "wait for the difference (rules §8)") {
  auto const report = bsp_run(
      {.workers = 4, .servers = 2, .scenario = {.speed = {.slowness = {1.0, 1.0, 5.0, 2.0}}}}, 6,
      100.0);
  CHECK(report.elapsed == 6 * (200us + 500us));
  CHECK(report.workers[2].wait == 0us);
  CHECK(report.workers[2].compute == 6 * 500us);
  for (std::size_t const fast : {0U, 1U}) {
    CHECK(report.workers[fast].compute == 6 * 100us);
    CHECK(report.workers[fast].wait == 5 * 400us);
    CHECK(report.workers[fast].send == 6 * 200us);
  }
  CHECK(report.workers[3].wait == 5 * 300us);
}

TEST_CASE("simulated: BSP's time grows with the heterogeneity level, ASP's workers never wait") {
  rb::simulated const options{
      .workers = 5, .scenario = {.speed = {.heterogeneity = {.level = 3.0}}}};
  CHECK(bsp_run(options, 10, 1000.0).elapsed == 10 * (200us + 3000us));
  auto const report = asp_run(options, 10, 1000.0);
  for (auto const& w : report.workers) CHECK(w.wait == 0us);
  for (std::size_t fast = 0; fast < 4; ++fast)
    CHECK(report.workers[fast].total() == 10 * (200us + 1000us));
  CHECK(report.workers[4].total() == 10 * (200us + 3000us));
}

TEST_CASE("simulated: compute, send and wait add up to each worker's time, exactly (rules §8)") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    check_books(bsp_run({.workers = 5, .servers = 3, .scenario = noisy(seed)}, 8, 40.0), true);
    check_books(asp_run({.workers = 5, .servers = 3, .scenario = noisy(seed)}, 8, 40.0), true);
  }
}

TEST_CASE("simulated: the same seed gives the same run, byte for byte; another seed another one") {
  auto const run = [](std::uint64_t seed) {
    simulation<rb::asp> cluster({.workers = 6, .servers = 3, .scenario = noisy(seed)}, rb::asp{},
                                {.rows = rows});
    auto report = cluster.run([](auto& worker) {
      std::vector<float> w(rows);
      for (int c = 0; c < 10; ++c) {
        worker.pull(w);
        for (float& x : w) x = 0.1F * static_cast<float>(worker.random().uniform()) - 0.01F * x;
        worker.push(w);
        worker.step(20.0);
      }
    });
    return std::pair(std::move(report), cluster.parameters());
  };
  auto const same_time = [](auto const& a, auto const& b) {
    return a.compute == b.compute && a.send == b.send && a.wait == b.wait &&
           a.staleness == b.staleness && a.bytes_sent == b.bytes_sent &&
           a.bytes_received == b.bytes_received;
  };
  auto const [first, first_w] = run(4);
  auto const [second, second_w] = run(4);
  auto const [other, other_w] = run(5);
  CHECK(first.elapsed == second.elapsed);
  CHECK(first.events == second.events);
  CHECK(first_w == second_w);
  CHECK(std::ranges::equal(first.workers, second.workers, same_time));
  CHECK(first.elapsed != other.elapsed);
  CHECK(first_w != other_w);
}

TEST_CASE("simulated: crossing messages of one worker and server stay in order") {
  // Latency varies wildly, so that without FIFO a pull would overtake the commit before it.
  simulation<rb::asp> cluster(
      {.servers = 2,
       .scenario = {.network = {.worker_link = {.jitter = rb::sim::pareto{.alpha = 0.5}}}}},
      rb::asp{}, {.rows = rows});
  auto const report = cluster.run([](auto& worker) {
    std::vector<float> w(rows);
    for (int c = 0; c < 200; ++c) {
      worker.pull(w);
      CHECK(w == std::vector<float>(rows, static_cast<float>(c)));
      worker.push(std::vector<float>(rows, 1.0F));
      worker.step(0.0);
    }
  });
  CHECK(report.servers.refused == 0);
}

TEST_CASE("simulated: more than a thousand workers take part in a run") {
  auto const report = asp_run({.workers = 1500, .stack_bytes = 32 * 1024}, 2, 10.0);
  CHECK(report.updates == 3000);
  CHECK(report.workers.size() == 1500);
  CHECK(report.elapsed == 2 * (200us + 10us));
}

TEST_CASE("simulated: who wants to know hears of every event") {
  simulation<rb::bsp> cluster({.workers = 2}, rb::bsp{}, {.rows = rows});
  std::uint64_t events = 0;
  rb::time_point last{};
  cluster.runtime().on_event([&] {
    ++events;
    CHECK(cluster.now() >= last);
    last = cluster.now();
  });
  auto const report = cluster.run(training(4, 1.0));
  CHECK(events == report.events);
  CHECK(events > 2 * 4 * 4);  // request, reply, commit and step, each
}

TEST_CASE("simulated: times that are added up to more than there is end at never") {
  constexpr auto never = rb::duration::max();
  auto const elapsed = [](rb::sim::scenario const& s) {
    return asp_run({.workers = 2, .scenario = s}, 2, 1.0).elapsed;
  };
  CHECK(elapsed({.server_delay = {never}}) == never);
  CHECK(elapsed({.network = {.worker_link = {.latency = never}}, .joins = {{0ms}}}) == never);
  CHECK(elapsed({.crashes = {{.worker = rb::worker_id{0}, .at = 0ms}}, .detection_delay = never}) == 402us);
}

TEST_CASE("simulated: a placement has room on its machines") {
  rb::simulated where{.workers = 3};
  where.scenario.machine_of = {7, 4, 7};
  CHECK(where.nodes() == std::vector<std::uint32_t>{1, 2});
  CHECK(where.machines_of(std::vector<std::uint32_t>{1, 2}) == std::vector<std::uint32_t>{4, 7, 7});
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(where.machines_of(std::vector<std::uint32_t>{2, 1}),
                    Contains("2 workers on machine 4, expected at most 1"));
  CHECK_THROWS_WITH(where.machines_of(std::vector<std::uint32_t>{1, 1, 1}), Contains("at most 2 machines"));
}
