// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Peers that are threads. Nothing here depends on how fast the machine is.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <rubato/peer/topologies.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <system_error>
#include <thread>

#include "no_more_threads.hpp"
#include "transport/noting_nearness.hpp"
#include "transport/peer_groups.hpp"

using namespace rubato;
using namespace rubato::test;
using namespace std::chrono_literals;

TEST_CASE("peers: stop() from another thread ends the run, whoever waits or sleeps",
          "[transport][peers]") {
  // Peer 0 waits for nobody to come; peer 3 sleeps for its slowness.
  auto group = make_group(in_process{.slowness = {1, 1, 1, 1e6}}, ring(4), standard());
  std::atomic<bool> slow_is_there = false;
  std::thread other([&] {
    while (!slow_is_there) std::this_thread::sleep_for(100us);
    std::this_thread::sleep_for(5ms);
    group.stop();
  });
  auto const report = group.run([&](auto& peer) {
    for ([[maybe_unused]] auto const k : peer.iterations(1'000'000)) {
      if (peer.rank() == 3) {
        std::this_thread::sleep_for(2ms);  // so that its slowness asks for half an hour
        slow_is_there = true;
      }
      peer.step(floats(4));
    }
  });
  other.join();
  CHECK(report.peers[3].iterations <= 1);
  CHECK(report.elapsed < 10min);
}

TEST_CASE("peers: where there is no thread for one, the error says so, and the next run has one",
          "[transport][peers]") {
  auto group = make_group(in_process{}, ring(4), standard());
  {
    no_more_threads const limit;
    CHECK_THROWS_AS(group.run(training(9)), std::system_error);
    CHECK_THROWS_WITH(group.run(training(9)), Catch::StartsWith("a thread for peer 0 cannot be started: "));
  }
  CHECK(group.run(training(9)).peers[0].iterations > 0);
}

TEST_CASE("peers: threads of one process are near, peers in virtual time are not known to be", "[transport][peers]") {
  noting_nearness const in_threads, in_virtual_time;
  make_group(in_process{}, ring(4), in_threads).run(training(9));
  CHECK(in_threads.steps->near == 8 * 4);
  CHECK(in_threads.steps->far == 0);
  make_group(simulated{}, ring(4), in_virtual_time).run(training(9));
  CHECK(in_virtual_time.steps->near == 0);
  CHECK(in_virtual_time.steps->far == 8 * 4);
}

TEST_CASE("peers: observe() may be called by any thread while peers train", "[transport][peers]") {
  auto group = make_group(in_process{}, ring_based(6), standard());
  std::atomic<bool> over = false;
  std::atomic<int> observed = 0;
  std::atomic<bool> wrong = false;
  std::thread reader([&] {
    while (!over) {
      floats const x = group.observe();
      wrong = wrong || x.size() != 4 ||
              !std::ranges::all_of(x, [](float v) { return std::isfinite(v); }) ||
              group.spread() < 0 || group.now() < time_point{};
      ++observed;
    }
  });
  group.run([&](auto& peer) {
    training(200)(peer);
    while (observed < 3) std::this_thread::sleep_for(100us);
    wrong = wrong || group.observe().size() != 4;  // by a body
  });
  over = true;
  reader.join();
  CHECK_FALSE(wrong);
}

TEST_CASE("peers: nodes may be looked at from any thread, as a run begins as well",
          "[transport][peers]") {
  auto group = make_group(in_process{}, ring(4), standard());
  std::atomic<bool> over = false;
  std::atomic<bool> wrong = false;
  std::thread reader([&] {
    while (!over)
      for (std::uint32_t i = 0; i < 4; ++i)
        group.runtime().look_at(i, [&](peer_node const& node) {
          auto const k = node.iteration();
          auto const made = static_cast<std::int64_t>(node.counters().iterations);
          wrong = wrong || made < k || made > k + 1;
        });
  });
  for (int run = 0; run < 20; ++run) group.run(training(20));
  over = true;
  reader.join();
  CHECK_FALSE(wrong);
}

TEST_CASE("peers: a slowed peer in threads takes so many times as long", "[transport][peers]") {
  auto group = make_group(in_process{.slowness = {1, 4}}, ring(3), standard());
  auto const report = group.run([](auto& peer) {
    for ([[maybe_unused]] auto const k : peer.iterations(5)) {
      std::this_thread::sleep_for(1ms);
      peer.step(floats(4));
    }
  });
  CHECK(report.peers[1].compute >= 5 * 4ms);
  CHECK(report.elapsed >= 5 * 4ms);
  CHECK_FALSE(report.virtual_time);
  for (auto const& p : report.peers) {
    CHECK(p.iterations == 5);
    CHECK(p.compute >= 5ms);
    CHECK(p.compute + p.wait() <= report.elapsed);
    CHECK(p.bytes_sent == 10 * (1 + 8 + 16) + 2 * (1 + 8));
  }
}

namespace {

/// 64 threads that sleep at random, the last ones much longer.
template <class Protocol>
peer_report stress(Protocol const& p, std::int64_t iterations) {
  auto group = make_group(in_process{}, ring_based(64), p);
  auto const report = group.run([&](auto& peer) {
    for ([[maybe_unused]] auto const k : peer.iterations(iterations)) {
      auto const most = peer.rank() >= 60 ? 1000U : 100U;
      std::this_thread::sleep_for(std::chrono::microseconds(peer.random().below(most)));
      peer.step(floats(4, 0.5F));
    }
  });
  std::uint64_t sent = 0;
  std::uint64_t used = 0;
  for (auto const& m : report.peers) {
    CHECK(m.iterations + m.jumped_over == static_cast<std::uint64_t>(iterations));
    CHECK(m.updates_sent + m.updates_spared == m.iterations * 3);
    CHECK(m.updates_reduced <= (m.iterations + m.jumps) * 3);
    sent += m.updates_sent;
    used += m.updates_reduced + m.updates_late;
  }
  CHECK(used <= sent);
  CHECK(group.observe().size() == 4);
  return report;
}

}  // namespace

TEST_CASE("peers: 64 threads with backup workers and jumps keep count", "[transport][peers]") {
  auto const report = stress(with_backup(), 100);
  for (auto const& m : report.peers) {
    CHECK(m.updates_reduced >= (m.iterations + m.jumps) * 2);
    CHECK(m.queue_peak <= (1 + 4) * 3);
  }
}

TEST_CASE("peers: 64 threads with bounded staleness keep count", "[transport][peers]") {
  auto const report = stress(hop(gather_newest{3}), 100);
  for (auto const& m : report.peers) {
    CHECK(m.iterations == 100);
    CHECK(m.updates_sent == 300);
    // It goes on for s + 1 iterations at most with what it has, which is at most as new as a
    // neighbor may be ahead: s + 1. So of each one it reduces an update in any 8 iterations.
    CHECK(m.updates_reduced >= 3 * (100 / 8));
    CHECK(m.queue_peak <= 3);
  }
}
