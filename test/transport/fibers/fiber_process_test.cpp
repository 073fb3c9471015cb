// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Workers of one machine that share a process, to the nanosecond.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/transport/simulated.hpp>

using namespace rubato;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t rows = 1'000'000;
using dense_counts = dense<std::int64_t, sum>;

/// Two workers on a machine, and a third one elsewhere. A pull of the table takes 8 ms on a network card, and
/// another 2 ms for its way.
simulated three_workers(bool one_process) {
  simulated s{.workers = 3, .servers = 1};
  s.scenario.network = {.worker_link = {.latency = 1ms, .bandwidth = 1'000'000'000}, .header_bytes = 0};
  s.scenario.speed.work_cost = 1ms;
  s.scenario.machine_of = {0, 0, 1};
  s.scenario.one_process_per_machine = one_process;
  return s;
}

duration not_computing(run_report const& r, std::size_t w) { return r.workers[w].send + r.workers[w].wait; }

}  // namespace

TEST_CASE("simulator: threads of a process that miss the same fetch it once", "[simulated]") {
  bool const one_process = GENERATE(true, false);
  cluster c{three_workers(one_process), ssp{.staleness = 3}, dense_counts{.rows = rows}};
  run_report const r = c.run([](auto& w) {
    std::vector<std::int64_t> values(rows);
    if (w.rank() < 2) w.pull(values);
  });
  CHECK(not_computing(r, 0) == 10ms);
  CHECK(not_computing(r, 1) == (one_process ? 10ms : 18ms));
}

TEST_CASE("simulator: what one thread of a process has fetched another one has at once", "[simulated]") {
  bool const one_process = GENERATE(true, false);
  cluster c{three_workers(one_process), ssp{.staleness = 3}, dense_counts{.rows = rows}};
  run_report const r = c.run([](auto& w) {
    std::vector<std::int64_t> values(rows);
    if (w.rank() == 1) w.step(20);
    if (w.rank() < 2) w.pull(values);
  });
  CHECK(not_computing(r, 0) == 10ms);
  CHECK(not_computing(r, 1) == (one_process ? 0ms : 12ms));  // it also asks whether it may go on
}

TEST_CASE("simulator: what a process fetches is counted once, for whom it is fetched", "[simulated]") {
  constexpr std::uint64_t element = sizeof(std::int64_t), key = sizeof(std::uint64_t);
  bool const one_process = GENERATE(true, false);
  bool const later = GENERATE(true, false);  // or the second one joins what is under way
  auto const traffic = [&](auto const& pull) {
    cluster c{three_workers(one_process), ssp{.staleness = 3}, dense_counts{.rows = rows}};
    auto const r = c.run([&](auto& w) {
      if (later && w.rank() == 1) w.step(20);
      if (w.rank() < 2) pull(w);
    });
    worker_metrics const &a = r.workers[0], &b = r.workers[1];
    return std::vector{a.bytes_sent, a.bytes_received, b.bytes_sent, b.bytes_received};
  };
  using counts = std::vector<std::uint64_t>;
  CHECK(traffic([](auto& w) {
          std::vector<std::int64_t> values(rows);
          w.pull(values);
        }) == counts{0, rows * element, 0, one_process ? 0 : rows * element});
  CHECK(traffic([](auto& w) {  // of which the second one shares two
          std::vector<std::uint64_t> const some = w.rank() == 0 ? std::vector<std::uint64_t>{1, 2, 3}
                                                                : std::vector<std::uint64_t>{2, 3, 4, 5, 6};
          std::vector<std::int64_t> values(some.size());
          w.pull(some, std::span(values));
        }) == counts{3 * key, 3 * element, (one_process ? 3 : 5) * key, (one_process ? 3 : 5) * element});
}

TEST_CASE("simulator: a process dies as a whole, and nobody else with it", "[simulated]") {
  bool const one_process = GENERATE(true, false);
  simulated s = three_workers(one_process);
  s.scenario.crashes = {{.worker = worker_id{1}, .at = 5ms}};
  cluster c{s, asp{}, dense_counts{.rows = 1}};
  std::vector<std::int64_t> steps(3);
  run_report const r = c.run([&](auto& w) {
    for (; steps[w.rank()] < 10; ++steps[w.rank()]) {
      w.push(std::vector<std::int64_t>{1});
      w.step();
    }
  });
  CHECK(r.crashes == (one_process ? 2 : 1));
  CHECK(steps[2] == 10);
  CHECK((steps[0] == 10) == !one_process);
  CHECK(steps[1] < 10);
}

TEST_CASE("simulator: one who joins where a process has died is of another one", "[simulated]") {
  simulated s = three_workers(true);
  s.scenario.machine_of = {0, 0, 1, 0};
  s.scenario.crashes = {{.worker = worker_id{0}, .at = 5ms}};
  s.scenario.joins = {{.at = 6ms}};
  cluster c{s, ssp{.staleness = 3}, dense_counts{.rows = rows}};
  bool has_read = false;
  run_report const r = c.run([&](auto& w) {
    std::vector<std::int64_t> values(rows);
    w.pull(values);  // under way when the first two die
    if (w.rank() == 3) has_read = true;
  });
  CHECK(r.crashes == 2);
  CHECK(has_read);
}

TEST_CASE("simulator: who has joined the fetch of a worker that leaves gets its answer", "[simulated]") {
  cluster c{three_workers(true), bsp{}, dense_counts{.rows = 3}};
  std::vector<std::int64_t> seen(3);
  c.run([&](auto& w) {
    if (w.rank() == 2) {
      w.push(std::vector<std::int64_t>{1, 1, 1});
      w.step(100);
      return;
    }
    w.step();
    if (w.rank() == 0) return w.prefetch();
    w.pull(seen);
  });
  CHECK(seen == std::vector<std::int64_t>{1, 1, 1});
}

TEST_CASE("simulator: what a process fetches does not overtake what its threads have posted", "[simulated]") {
  simulated s = three_workers(true);
  s.scenario.network.local_link.bandwidth = 1'000'000'000;
  s.scenario.server_machine_of = {0};
  cluster c{s, asp{}, dense_counts{.rows = rows}};
  std::vector<std::int64_t> seen(rows);
  c.run([&](auto& w) {
    if (w.rank() == 1) {
      w.push(std::vector<std::int64_t>(rows, 1));
      w.step(1);  // takes 8 ms to leave
      w.pull(seen);
    } else if (w.rank() == 0) {
      w.step(2);
      std::vector<std::int64_t> values(rows);
      w.pull(values);
    }
  });
  CHECK(std::ranges::count(seen, 1) == rows);
}

TEST_CASE("simulator: under ASP nobody has waited for what is on its way to a process as the run ends", "[simulated]") {
  bool const one_process = GENERATE(true, false);
  cluster c{three_workers(one_process), asp{}, dense_counts{.rows = rows}};
  run_report const r = c.run([&](auto& w) {
    std::vector<std::int64_t> values(rows);
    if (w.rank() < 2) return w.pull(values);
    w.step(5);
    c.stop();
  });
  CHECK(r.workers[0].wait == 0ms);
  CHECK(r.workers[1].wait == 0ms);
  CHECK(r.workers[0].send == 5ms);
}
