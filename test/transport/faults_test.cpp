// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What goes wrong in a simulated cluster, and who comes later.
#include <rubato/transport/simulated.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/server/server_group.hpp>
#include <rubato/storage/dense.hpp>

namespace rb = rubato;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

using dense_doubles = rb::dense<double>;
template <class P>
using simulation = rb::cluster<rb::simulated, P, dense_doubles>;
using doubles = std::vector<double>;

/// Every clock takes a worker 200 us of messages and 800 us of work.
auto clocks_of_work(int clocks) {
  return [=](auto& worker) {
    doubles w(4);
    doubles const u(4, 1.0);
    while (worker.clock() < rb::clock_index{clocks}) {
      worker.pull(w);
      worker.push(u);
      worker.step(800.0);
    }
  };
}

/// Admits a read at clock c once everybody is at c + 1: nobody ever is.
struct asks_too_much {
  rb::staleness bound() const noexcept { return 0; }
  rb::clock_index need(rb::clock_index c, rb::staleness) const noexcept { return c.next(); }
  rb::clock_index cache_need(rb::clock_index c, rb::staleness) const noexcept { return c; }
};
static_assert(rb::admission_policy<asks_too_much>);

/// Watches a run: the clock that a server has published never falls.
template <class Cluster>
void watch(Cluster& cluster, bool& fell) {
  std::vector<rb::clock_index> last(cluster.servers().size(), rb::clock_index{0});
  cluster.runtime().on_event([&cluster, &fell, last]() mutable {
    for (std::uint32_t s = 0; s < last.size(); ++s)
      cluster.servers().server(rb::server_id{s}).inspect([&](auto const& control) {
        fell = fell || control.published() < last[s] || control.workers().floor() < last[s];
        last[s] = control.published();
      });
  });
}

}  // namespace

TEST_CASE("simulated: when everybody waits the run ends, and the sentence says who waits for "
          "what") {
  auto const p = with(rb::bsp{}, asks_too_much{});
  rb::cluster cluster{rb::simulated{.workers = 2, .servers = 2}, p, dense_doubles{.rows = 4}};
  CHECK_THROWS_AS(cluster.run(clocks_of_work(3)), rb::deadlock_error);
  CHECK_THROWS_WITH(cluster.run(clocks_of_work(3)),
                    Contains("worker 0 at clock 0") && Contains("worker 1 at clock 0") &&
                        Contains("server 0") && Contains("server 1") &&
                        Contains("for c_min 1, which is 0") && Contains("because of worker 0"));
}

TEST_CASE("simulated: after a deadlock the cluster runs again") {
  auto const p = with(rb::bsp{}, asks_too_much{});
  rb::cluster cluster{rb::simulated{.workers = 2}, p, dense_doubles{.rows = 4}};
  CHECK_THROWS_AS(cluster.run([](auto& worker) {
    worker.commit();
    FAIL("a commit waits as a push does");
  }),
                  rb::deadlock_error);
  int ran = 0;
  cluster.run([&](auto&) { ++ran; });
  CHECK(ran == 2);
}

TEST_CASE("simulated: under BSP the others go on once a crash is detected (rules §1)") {
  simulation<rb::bsp> cluster(
      {.workers = 3,
       .servers = 2,
       .scenario = {.crashes = {{.worker = rb::worker_id{1}, .at = 2500us}},
                    .detection_delay = 50ms}},
      rb::bsp{}, {.rows = 4});
  bool fell = false;
  watch(cluster, fell);
  auto const report = cluster.run(clocks_of_work(6));
  // Worker 1 died in its third clock, before its third commit.
  CHECK(report.crashes == 1);
  CHECK(report.workers[1].commits == 2);
  CHECK(report.workers[0].commits == 6);
  CHECK(report.workers[2].commits == 6);
  CHECK(report.updates == 2 + 6 + 6);
  CHECK(cluster.parameters() == doubles(4, 6.0));
  CHECK_FALSE(fell);
  // From their fourth read on they waited: for the crash to be noticed, for freeze and reports, and
  // for the drop.
  CHECK(report.workers[0].wait == (2500us + 50ms) + 2 * 100us + 100us - (3000us + 100us));
  CHECK(report.elapsed > 52ms);
  CHECK(report.servers.dropped == 0);
  CHECK(report.servers.partly_folded == 0);
}

TEST_CASE("simulated: who is lost while it waits, or waits when the run is stopped, has waited (rules §8)") {
  bool const crashes = GENERATE(true, false);
  bool const ahead = GENERATE(true, false);  // asked for before it is pulled
  rb::sim::scenario scenario;
  if (crashes) scenario.crashes = {{.worker = rb::worker_id{0}, .at = 50ms}};
  simulation<rb::bsp> cluster({.workers = 2, .scenario = scenario}, rb::bsp{}, {.rows = 4});
  auto const report = cluster.run([&](auto& worker) {
    doubles w(4);
    worker.pull(w);
    worker.step(worker.rank() == 0 ? 800.0 : 49'800.0);
    if (worker.rank() == 1) return cluster.stop();  // at 50 ms, and its commit is on the way
    if (ahead) worker.prefetch();
    worker.pull(w);
  });
  CHECK(report.crashes == (crashes ? 1 : 0));
  CHECK(report.workers[0].send == 300us);  // of which the last question took 100
  CHECK(report.workers[0].compute == 800us);
  CHECK(report.workers[0].wait == 48'900us);
}

TEST_CASE("simulated: a commit that reached some servers only is dropped where it is held back "
          "(rules §1)") {
  // A commit takes 1 ms to leave for each server; worker 1 dies when it has left for the first one
  // and not for the second.
  simulation<rb::bsp> cluster(
      {.workers = 2,
       .servers = 2,
       .scenario = {.speed = {.slowness = {100.0, 1.0}},
                    .network = {.worker_link = {.latency = 0us, .bandwidth = 80'000},
                                .header_bytes = 64},
                    .crashes = {{.worker = rb::worker_id{1}, .at = 8500us}},
                    .detection_delay = 1ms}},
      rb::bsp{}, {.rows = 4});
  auto const report = cluster.run([](auto& worker) {
    // Push 16 bytes to each server: a commit is 80 bytes with its header, and takes 1 ms.
    worker.push(doubles(4, worker.rank() == 0 ? 1.0 : 100.0));
    worker.step(worker.rank() == 0 ? 1000.0 : 5500.0);
  });
  CHECK(report.crashes == 1);
  CHECK(report.servers.dropped == 1);
  CHECK(report.servers.partly_folded == 0);
  CHECK(cluster.parameters() == doubles(4, 1.0));  // nothing of worker 1, and M = 1
}

TEST_CASE("simulated: when all workers crash the run ends") {
  simulation<rb::bsp> cluster(
      {.workers = 2,
       .scenario = {.crashes = {{.worker = rb::worker_id{0}, .at = 1500us},
                                {.worker = rb::worker_id{1}, .at = 2500us}}}},
      rb::bsp{}, {.rows = 4});
  auto const report = cluster.run(clocks_of_work(100));
  CHECK(report.crashes == 2);
  CHECK(report.elapsed == 2500us);
  CHECK(cluster.run(clocks_of_work(1)).workers.size() == 2);
}

TEST_CASE("simulated: a crash of a worker that has ended, or not yet come, changes nothing") {
  simulation<rb::bsp> cluster({.workers = 2,
                               .scenario = {.crashes = {{.worker = rb::worker_id{0}, .at = 1s},
                                                        {.worker = rb::worker_id{2}, .at = 0s}},
                                            .joins = {{.at = 2ms}}}},
                              rb::bsp{}, {.rows = 4});
  auto const report = cluster.run(clocks_of_work(5));
  CHECK(report.crashes == 0);
  CHECK(cluster.parameters()[0] == Approx(5.0));
}

TEST_CASE("simulated: the scenario's joiners come at their time, at c_min, which never falls "
          "(rules §1)") {
  simulation<rb::bsp> cluster(
      {.workers = 2,
       .servers = 3,
       .scenario = {.network = {.worker_link = {.jitter = rb::sim::exponential{}}},
                    .joins = {{.at = 3500us}, {.at = 6us}, {.at = 10h}}}},
      rb::bsp{}, {.rows = 4});
  bool fell = false;
  watch(cluster, fell);
  std::vector<std::int64_t> started;
  auto const report = cluster.run([&](auto& worker) {
    started.push_back(worker.clock().value());
    CHECK(worker.rank() == started.size() - 1);
    CHECK((worker.now() >= rb::time_point(3500us)) == (worker.rank() == 3));
    clocks_of_work(12)(worker);
  });
  REQUIRE(started.size() == 4);  // nobody joins a run that is over
  CHECK(started[2] == 0);
  CHECK(started[3] > 0);
  CHECK(started[3] <= 4);
  CHECK_FALSE(fell);
  // The joiners' commits count from their start on, and the mean of ones is one.
  CHECK(cluster.parameters()[0] == Approx(12.0));
  CHECK(report.updates == static_cast<std::uint64_t>(4 * 12 - started[3]));
}

TEST_CASE("simulated: a joiner that crashes while it joins holds nobody up") {
  simulation<rb::bsp> cluster(
      {.workers = 2,
       .servers = 2,
       .scenario = {.crashes = {{.worker = rb::worker_id{2}, .at = 1150us}},
                    .joins = {{.at = 1ms}},
                    .detection_delay = 5ms}},
      rb::bsp{}, {.rows = 4});
  bool fell = false;
  watch(cluster, fell);
  auto const report = cluster.run(clocks_of_work(10));
  CHECK(report.crashes == 1);
  CHECK(report.workers[2].commits == 0);
  CHECK(cluster.parameters() == doubles(4, 10.0));
  CHECK_FALSE(fell);
}

TEST_CASE("simulated: under SSP a crash lets the others run s clocks ahead, then wait for it to be "
          "noticed (SSP-3)") {
  simulation<rb::ssp> cluster({.workers = 2,
                               .scenario = {.crashes = {{.worker = rb::worker_id{1}, .at = 100us}},
                                            .detection_delay = 1s}},
                              rb::ssp{.staleness = 2}, {.rows = 4});
  std::vector<rb::time_point> began;
  cluster.run([&](auto& worker) {
    doubles w(4);
    for (int c = 0; c < 6; ++c) {
      worker.pull(w);
      if (worker.rank() == 0) began.push_back(worker.now());
      worker.step(100.0);
    }
  });
  REQUIRE(began.size() == 6);
  CHECK(began[2] < rb::time_point(1s));
  CHECK(began[3] > rb::time_point(1s));
  CHECK(began[5] < rb::time_point(1010ms));
}
