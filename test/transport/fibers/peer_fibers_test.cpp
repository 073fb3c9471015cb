// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What a run of peers in virtual time measures, to the nanosecond.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <rubato/peer/topologies.hpp>
#include <rubato/transport/simulated.hpp>
#include <stdexcept>

#include "transport/peer_groups.hpp"

using namespace rubato;
using namespace rubato::test;
using namespace std::chrono_literals;

namespace {

/// Steps take `step`, messages `latency`.
simulated exact(duration step, duration latency) {
  return {
      .scenario = {.speed = {.work_cost = step}, .network = {.worker_link = {.latency = latency}}}};
}

template <class Protocol>
peer_report exact_run(duration step, duration latency, Protocol const& p, std::int64_t iterations) {
  auto group = make_group(exact(step, latency), ring(3), p);
  return group.run(training(iterations));
}

void check_times(peer_report const& r, duration compute, duration updates, duration tokens) {
  CHECK(r.virtual_time);
  CHECK(r.crashes == 0);
  CHECK(r.elapsed == compute + updates + tokens);
  for (auto const& p : r.peers) {
    CHECK(p.compute == compute);
    CHECK(p.wait_updates == updates);
    CHECK(p.wait_tokens == tokens);
  }
}

}  // namespace

TEST_CASE("peers: in parallel order what a message takes is hidden behind the step",
          "[transport][peers]") {
  auto const report = exact_run(2ms, 1ms, standard(), 5);
  check_times(report, 10ms, 0ms, 0ms);
  for (auto const& p : report.peers) {
    CHECK(p.iterations == 5);
    CHECK(p.updates_sent == 10);
    CHECK(p.updates_reduced == 10);
    CHECK(p.updates_late + p.updates_spared + p.jumps + p.jumped_over == 0);
    CHECK(p.queue_peak == 2);
    // An update: what it is, its iteration, and 4 floats; two farewells without the floats.
    CHECK(p.bytes_sent == 10 * (1 + 8 + 16) + 2 * (1 + 8));
  }
  // Per peer one start, 5 steps, and 10 updates and 2 farewells received.
  CHECK(report.events == 3 * (1 + 5 + 10 + 2));
  // The slower of the two is what counts.
  check_times(exact_run(2ms, 3ms, standard(), 5), 10ms, 5ms, 0ms);
}

TEST_CASE("peers: in serial order a message's time comes on top of the step's",
          "[transport][peers]") {
  check_times(exact_run(2ms, 1ms, standard(iteration_order::serial), 5), 10ms, 5ms, 0ms);
}

TEST_CASE("peers: NOTIFY-ACK adds the way of the acknowledgement to all but the first step",
          "[transport][peers]") {
  check_times(exact_run(2ms, 1ms, hop(notify_ack{}), 5), 10ms, 0ms, 4ms);
  check_times(exact_run(2ms, 1ms, hop(notify_ack{}, iteration_order::serial), 5), 10ms, 5ms, 0ms);
}

TEST_CASE("peers: messages leave a card of finite bandwidth one after the other",
          "[transport][peers]") {
  simulated transport = exact(1ms, 1ms);
  transport.scenario.network.worker_link.bandwidth = 1'000'000;  // a byte takes 1 us
  auto group = make_group(transport, ring(3), standard());
  // Two updates of 25 bytes with headers of 64 take 178 us.
  check_times(group.run(training(5)), 5ms, 5 * 178us, 0ms);
}

TEST_CASE("peers: a slow one holds up its neighbors, and these theirs", "[transport][peers]") {
  simulated transport = exact(1ms, 1ms);
  transport.scenario.speed.slowness = {1, 1, 5};
  auto group = make_group(transport, directed_ring(3), standard());
  auto const report = group.run(training(4));
  CHECK(report.peers[2].compute == 20ms);
  CHECK(report.peers[2].wait() == 0ms);
  // Its update k leaves at 5k ms. Peer 0 gets it 1 ms later, and so ends iteration k at 5k + 1 ms,
  // when its own update k + 1 leaves: peer 1 is one iteration ahead, and waits once less.
  CHECK(report.peers[0].wait_updates == 3 * 4ms);
  CHECK(report.peers[1].wait_updates == 2 * 4ms);
  CHECK(report.elapsed == 20ms);
}

TEST_CASE("peers: with backup workers a crash holds the others up until it is noticed",
          "[transport][peers]") {
  simulated transport = exact(2ms, 1ms);
  transport.scenario.crashes = {{.worker = worker_id{2}, .at = 5ms}};
  transport.scenario.detection_delay = 10ms;
  auto group = make_group(transport, ring(3), hop(gather_all_but{1}, token_queues{2}));
  auto const report = group.run(training(8));
  // It dies in iteration 2, having put in 3 tokens. With one more at the start the others come to
  // iteration 4, end that at 10 ms, wait until 15 ms, and have 3 more to make.
  CHECK(report.crashes == 1);
  CHECK(report.elapsed == 21ms);
  CHECK(report.peers[2].iterations == 2);
  for (std::uint32_t const i : {0U, 1U}) {
    auto const& p = report.peers[i];
    CHECK(p.iterations == 8);
    CHECK(p.compute == 16ms);
    CHECK(p.wait_tokens == 5ms);
    CHECK(p.wait_updates == 0ms);
    CHECK(p.updates_sent == 2 * 5 + 3);
    CHECK(p.updates_reduced == 8 + 3);
    CHECK(p.bytes_sent == 13 * (9 + 16) + (13 + 1) * 9);  // updates, tokens, a farewell
  }
  CHECK(group.runtime().crashed(2));
  // Only those that live count in the consensus.
  auto const& one = group.parameters(0);
  auto const& other = group.parameters(1);
  for (std::size_t i = 0; i < one.size(); ++i)
    CHECK(group.parameters()[i] == Approx((one[i] + other[i]) / 2));
  // In the next run it is there again, as the scenario has it: until it dies at 5 ms.
  CHECK(group.run(training(1)).crashes == 0);
}

TEST_CASE("peers: a crashed peer sends nothing more, whatever its body catches",
          "[transport][peers]") {
  simulated transport = exact(1ms, 1ms);
  transport.scenario.crashes = {{.worker = worker_id{0}, .at = 2500us}};
  auto group = make_group(transport, ring(3), hop(gather_all_but{1}, token_queues{2}));
  int caught = 0;
  auto const report = group.run([&](auto& peer) {
    for ([[maybe_unused]] auto const k : peer.iterations(6)) {
      try {
        peer.step(floats(4));
      } catch (...) {  // and goes on as if all were well
        ++caught;
        return;
      }
    }
  });
  CHECK(caught == 1);
  CHECK(report.crashes == 1);
  CHECK(report.peers[0].iterations == 2);
  CHECK(report.peers[0].updates_sent == 2 * 3);
  CHECK(report.peers[1].iterations == 6);
}

TEST_CASE("peers: what an observer throws ends a simulated run as it is, not as a deadlock",
          "[transport][peers]") {
  auto group = make_group(simulated{}, ring(3), standard());
  group.runtime().on_event([] { throw std::domain_error("an invariant is broken"); });
  CHECK_THROWS_AS(group.run(training(5)), std::domain_error);
  int events = 0;
  group.runtime().on_event([&] {
    if (++events == 20) group.stop();
  });
  CHECK(group.run(training(1'000'000)).events == 20);
  group.runtime().on_event({});
  CHECK(group.run(training(5)).iterations() == 15);
}
