// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Gossip in random directed pairs: nobody waits, and no weight is lost.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/gossip.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/testing/peer_schedule.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <string>
#include <vector>

#include "peer/mass.hpp"
#include "seeds.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

simulated one_slower(double times) {
  return {.scenario = {.speed = {.work_cost = 10ms, .slowness = {times}},
                       .network = {.worker_link = {.latency = 3ms}}}};
}

/// Peers that come apart in the first iteration, and add nothing from then on.
auto apart_at_first(std::int64_t n) {
  return [n](auto& peer) {
    for (std::int64_t const k : peer.iterations(n)) peer.step(std::vector{k == 0 ? 4.0 * peer.rank() : 0.0});
  };
}

}  // namespace

TEST_CASE("gossip: weights and weighted parameters are kept, after every event of any schedule", "[peer]") {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const s = testing::random_peers(seed, {.peers_max = 9, .crashes = false});
    CHECK(test::loses_mass(gossip{.probability = seed % 2 == 0 ? 1 : 0.4, .seed = seed}, s) == "");
  }
}

TEST_CASE("gossip: nobody waits, for a slow peer neither, and all come together", "[peer]") {
  peer_group group{one_slower(20), complete(6), gossip{.probability = 1}, plain_step{}, std::vector<double>{0}};
  auto const r = group.run(apart_at_first(60));
  CHECK(r.elapsed == 60 * 200ms);  // the slow one's own time
  for (peer_metrics const& p : r.peers) {
    CHECK(p.iterations == 60);
    CHECK(p.wait() == 0ms);
  }
  std::uint64_t sent = 0, reduced = 0;
  for (peer_metrics const& p : r.peers) {
    sent += p.updates_sent;
    reduced += p.updates_reduced;
    CHECK(p.updates_sent + p.updates_spared == 60);
  }
  CHECK(reduced == sent);
  CHECK(group.spread() < 4);  // of 10 at first; the slow one has heard of others only
}

TEST_CASE("gossip: on any strongly connected graph peers come to one average", "[peer]") {
  graph const lopsided = graph::from_numbers({{1, 2, 3}, {2}, {0}, {0, 1}});
  peer_group group{one_slower(1.5), mixing_matrix::push(lopsided), gossip{.seed = 3}, plain_step{},
                   std::vector<double>{0}};
  group.run(apart_at_first(300));
  CHECK(group.spread() < 1e-6);
  CHECK(group.parameters()[0] > 0);
  CHECK(group.parameters()[0] < 12);
}

TEST_CASE("gossip: a step is added to the parameters as it is, what comes counts by its weight", "[peer]") {
  peer_group group{one_slower(3), complete(2), gossip{.probability = 1}, plain_step{}, std::vector<double>{0}};
  group.run([](auto& peer) {
    bool const slow = peer.rank() == 0;
    for ([[maybe_unused]] auto k : peer.iterations(slow ? 1 : 2)) peer.step(std::vector<double>{slow ? 7.0 : 1.0});
  });
  CHECK(group.parameters(1)[0] == 2);  // of which a half went away after the first step, and a half of that
  CHECK(group.parameters(0)[0] == Approx((0.5 * 1 + 0.25 * 2) / 1.75 + 7));
}

TEST_CASE("gossip: threads that push at once lose nothing", "[peer]") {
  std::vector<std::vector<double>> seen(5);
  peer_group group{in_process{}, complete(5), gossip{.probability = 1}, plain_step{},
                   std::vector<double>(4000, 1)};
  auto const r = group.run([&](auto& peer) {
    for (std::int64_t const k : peer.iterations(200)) {
      auto const before = std::vector<double>(peer.parameters().begin(), peer.parameters().end());
      peer.step(std::vector<double>(4000, k == 0 ? peer.rank() : 0.0));
      if (before.front() != before.back()) seen[peer.rank()] = before;  // half of an average
    }
  });
  std::uint64_t sent = 0, reduced = 0;
  double weight = 0;
  for (std::uint32_t i = 0; i < 5; ++i) {
    sent += r.peers[i].updates_sent;
    reduced += r.peers[i].updates_reduced;
    group.runtime().look_at(i, [&](peer_node const& n) { weight += dynamic_cast<push_node const&>(n).weight(); });
    CHECK(group.parameters(i)[0] >= 1);
    CHECK(group.parameters(i)[0] <= 1 + 0 + 1 + 2 + 3 + 4);
    CHECK(seen[i].empty());
  }
  CHECK(sent == reduced);
  CHECK(weight == Approx(5));
}

TEST_CASE("gossip: the others go on without one that is lost, or leaves", "[peer]") {
  bool const crashes = GENERATE(true, false);
  simulated cluster = one_slower(20);
  if (crashes) cluster.scenario.crashes = {{.worker = worker_id{2}, .at = 95ms}};
  peer_group group{cluster, ring(6), gossip{}, plain_step{}, std::vector<double>{1}};
  auto const r = group.run([&](auto& peer) {
    for (std::int64_t const k : peer.iterations(50)) {
      if (!crashes && peer.rank() == 2 && k == 3) break;
      peer.step(std::vector<double>{0});
    }
  });
  for (std::uint32_t const i : {0U, 1U, 3U, 4U, 5U}) {
    CHECK(r.peers[i].iterations == 50);
    CHECK(group.parameters(i)[0] == Approx(1));
  }
}

TEST_CASE("gossip: who gets nothing back keeps the last of its weight, and the run goes on", "[peer]") {
  simulated cluster = one_slower(5000);
  peer_group group{cluster, star(4), gossip{.probability = 1}, plain_step{}, std::vector<double>{1}};
  auto const r = group.run([&](auto& peer) {
    for ([[maybe_unused]] auto k : peer.iterations(peer.rank() == 0 ? 1 : 2000)) peer.step(std::vector<double>{0});
  });
  for (std::uint32_t i = 1; i < 4; ++i) {
    double weight = 0;
    group.runtime().look_at(i, [&](peer_node const& n) { weight = dynamic_cast<push_node const&>(n).weight(); });
    CHECK(weight >= 0x1p-41);
    CHECK(r.peers[i].iterations == 2000);
    CHECK(r.peers[i].updates_sent < 50);
    CHECK(r.peers[i].updates_sent + r.peers[i].updates_spared == 2000);
    CHECK(group.parameters(i)[0] == 1);
  }
}

TEST_CASE("gossip: a probability that is none is an error", "[peer]") {
  auto const made = [](double p) {
    peer_group group{simulated{}, ring(3), gossip{.probability = p}, plain_step{}, std::vector<double>{1}};
  };
  CHECK_THROWS_WITH(made(0), Contains("random_partner") && Contains("0"));
  CHECK_THROWS_AS(made(1.01), option_error);
}
