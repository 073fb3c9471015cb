// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Peers of a run, each a process, by the code that runs over TCP, in a network that fails as each seed draws. Longer
// searches as in processes_under_faults.cpp.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <rubato/cluster/peer_group.hpp>
#include <rubato/core/rare.hpp>
#include <rubato/peer/ad_psgd.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/testing/world.hpp>

#include "seeds.hpp"
#include "simulated/peers_under_faults.hpp"
#include "simulated/search.hpp"

using namespace rubato;

TEST_CASE("peers in several processes keep their rules under faults, and all that seldom happens does",
          "[simulated][peers]") {
  constexpr std::uint64_t usual = 4000;
  std::uint64_t const seeds = test::seed_count(usual);
  test::search_tally tally;
  std::uint64_t looks = 0, compared = 0;
  std::uint64_t kills[2] = {0, 0};  // without and with backup workers or staleness
  for (std::uint64_t i = 0; i < seeds; ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    test::watched_peers trial(seed);
    testing::trial_result const r = trial.run();
    if (!r.found.empty()) FAIL(r.text());
    tally.add(r);
    looks += trial.looks();
    compared += trial.compared();
    kills[trial.outlives_loss() ? 1 : 0] += r.faults[static_cast<std::size_t>(testing::fault::kills)];
  }
  tally.tell("peers under faults");
  if (seeds < usual) return;
  CHECK(tally.well() > seeds / 4);
  CHECK(tally.harmful() > seeds / 8);
  CHECK(looks > 100 * seeds);
  CHECK(compared > seeds);
  CHECK(kills[0] > 100);
  CHECK(kills[1] > 100);
  CHECK(test::never_reached(rare_paths(), test::paths_of::peers) == std::vector<std::string>{});
}

// As long as seeds draw what they drew then.
TEST_CASE("seeds of peers that longer searches have found something by find it no more", "[simulated][peers]") {
  // One stood still as it was let in, and came to the search after who had its place by then.
  testing::trial_result const r = test::watched_peers(5'156'790U).run();
  INFO(r.text());
  CHECK(r.found.empty());
}

TEST_CASE("a run of peers under faults is decided by its seed", "[simulated][peers]") {
  for (std::uint64_t seed = test::first_seed(); seed < test::first_seed() + 20; ++seed) {
    testing::trial_result const once = test::watched_peers(seed).run();
    testing::trial_result const again = test::watched_peers(seed).run();
    INFO("seed " << seed);
    CHECK(once.hash == again.hash);
    CHECK(once.events == again.events);
    CHECK(once.story == again.story);
  }
}

TEST_CASE("peers in several processes come to what one computation comes to, bit for bit (HOP-3)",
          "[simulated][peers]") {
  std::uint64_t compared = 0;
  for (std::uint64_t seed = test::first_seed(); seed < test::first_seed() + 100; ++seed) {
    test::watched_peers trial(seed, test::watched_peers::faults::none);
    testing::trial_result const r = trial.run();
    INFO(r.text());
    REQUIRE(r.found.empty());
    REQUIRE(std::ranges::all_of(r.ends, [](auto const& e) { return e.ended && e.failure.empty(); }));
    compared += trial.compared();
  }
  CHECK(compared > 500);
}

// Its answer was of the run before, and was not waited for.
TEST_CASE("a peer that is asked before a run has begun at it answers in that run", "[simulated][peers]") {
  using namespace std::chrono_literals;
  constexpr std::uint32_t peers = 2;
  testing::world world(1);
  auto const add = [&](net::role as, std::uint32_t rank) {
    return world.add(as == net::role::coordinator ? "coordinator" : "peer " + std::to_string(rank),
                     [as, rank](testing::simulated_process& me) {
                       net::deployment place;
                       place.as = as;
                       if (as == net::role::worker) place.rank = rank;
                       place.workers = peers;
                       place.servers = 0;
                       place.coordinator = {.host = "127.0.0.1", .port = 29500};
                       peer_group group{tcp{.place = place, .network = me.network()}, ring(peers), ad_psgd{},
                                        sgd{.rate = 0.1}, std::vector<double>{1, 2}};
                       auto const body = [](auto& peer) {
                         for (std::int64_t const k : peer.iterations(3))
                           peer.step(test::gradient_at(peer.parameters(), peer.rank(), k));
                       };
                       (void)group.run(body);
                       if (as == net::role::worker) (void)group.run(body);
                     });
  };
  auto const coordinator = add(net::role::coordinator, 0);
  (void)add(net::role::worker, 0);  // which asks
  auto const late = add(net::role::worker, 1);
  world.set_path(coordinator, late, {.latency = 20ms});
  CHECK(world.run(10s));
  for (auto const& end : world.ends()) {
    INFO(end.name);
    CHECK(end.failure == "");
  }
}
