// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

#include "rubato/cluster/cluster.hpp"
#include "rubato/partition/by_function.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/simulated.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

template <class Transport>
auto small_cluster(Transport t) {
  return cluster<Transport, ssp, dense<double>>{t, ssp{.staleness = 3}, dense<double>{.rows = 2}};
}

template <class Transport>
void check_run_within_run(Transport t) {
  auto c = small_cluster(t);
  CHECK_THROWS_WITH(c.run([&](auto&) { c.run([](auto&) {}); }), Catch::Contains("under way already"));
  CHECK(c.run([](auto& w) { w.commit(); }).updates == 1);  // and the next one is fine
}

}  // namespace

TEST_CASE("a run that is started from a body is refused, and the cluster stays of use") {
  check_run_within_run(in_process{});
  check_run_within_run(simulated{});
}

TEST_CASE("what an observer throws ends a simulated run as it is, not as a deadlock") {
  auto c = small_cluster(simulated{.workers = 2});
  c.runtime().on_event([] { throw std::domain_error("an invariant is broken"); });
  auto const body = [](auto& w) {
    std::vector<double> x(2);
    w.pull(x);
  };
  CHECK_THROWS_AS(c.run(body), std::domain_error);
  c.runtime().on_event({});
  CHECK(c.run(body).workers.size() == 2);
}

TEST_CASE("a crashed worker sends nothing more, whatever its body catches") {
  sim::scenario scenario;
  scenario.speed.work_cost = 1ms;
  scenario.crashes = {{.worker = worker_id{0}, .at = 2500us}};
  auto c = small_cluster(simulated{.workers = 1, .servers = 1, .scenario = scenario});
  auto const report = c.run([](auto& w) {
    std::array<double, 2> const one{1, 1};
    try {
      for (int i = 0; i < 10; ++i) {
        w.push(one);
        w.step();
      }
    } catch (...) {  // and so the body ends as if all were well
    }
  });
  CHECK(report.crashes == 1);
  CHECK(report.updates == 2);
}

TEST_CASE("the time of a run does not remember a longer one before it") {
  auto c = small_cluster(in_process{});
  c.run([](auto& w) {
    while (w.now() < time_point(20ms)) std::this_thread::yield();
  });
  auto const start = std::chrono::steady_clock::now();
  auto const second = c.run([](auto&) {}).elapsed;
  CHECK(second <= std::chrono::steady_clock::now() - start);  // however loaded the machine is
}

TEST_CASE("a partition that names no server is an error on a sparse table too") {
  auto const nowhere = by_function([](key, table_shape) { return server_id{70'000}; });
  sparse<float, merge_of_protocol, decltype(nowhere)> const table{.partition = nowhere};  // const, as it is
  cluster c{in_process{.workers = 1, .servers = 2}, ssp{}, table};
  auto const push = [](auto& w) { w.push(std::array{key{7}}, std::array{1.0F}); };
  CHECK_THROWS_WITH(c.run(push), Catch::Contains("key 7") && Catch::Contains("server 70000"));
}

TEST_CASE("a table larger than any memory is refused at once") {
  auto const make = [](std::uint64_t rows, std::size_t width) {
    cluster{in_process{}, ssp{}, dense<float>{.rows = rows, .width = width}};
  };
  CHECK_THROWS_AS(make(~std::uint64_t{0}, 1), option_error);
  CHECK_THROWS_AS(make(4, std::size_t{1} << 62), option_error);
}

TEST_CASE("a cached copy that lacks many own commits is fetched anew, also without a bound") {
  cluster c{in_process{}, ssp{.staleness = staleness::infinite()}, dense<double>{.rows = 2}};
  auto const report = c.run([](auto& w) {
    std::array<double, 2> const one{1, 1};
    std::array<double, 2> x{};
    for (int i = 0; i < 1000; ++i) {
      w.pull(x);
      CHECK(x[0] == i);
      w.push(one);
      w.commit();
    }
  });
  CHECK(report.total().fetches > 10);
  CHECK(report.total().fetches < 20);
}
