// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Partial all-reduce in groups: what members hold afterwards, what all hold together, and what a loss means.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/prague.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/testing/peer_schedule.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <set>
#include <string>
#include <vector>

#include "peer/mass.hpp"
#include "peer/setups.hpp"
#include "seeds.hpp"
#include "simulated/peers_in_one_place.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

/// Of all peers before each iteration, and after the last.
template <class Transport>
std::vector<test::peer_states<double>> states_of_groups(Transport const& t, prague const& p, graph const& g,
                                                        std::int64_t iterations) {
  std::vector all(static_cast<std::size_t>(iterations) + 1, test::peer_states<double>(g.size()));
  peer_group group{t, g, p, sgd{.rate = 0.1, .momentum = 0.9}, std::vector<double>{1, -2, 0.3}};
  group.run([&](auto& peer) {
    for (std::int64_t const k : peer.iterations(iterations)) {
      auto const x = peer.parameters();
      all[static_cast<std::size_t>(k)][peer.rank()].assign(x.begin(), x.end());
      peer.step(test::gradient_at(x, peer.rank(), k));
    }
  });
  for (std::uint32_t i = 0; i < g.size(); ++i) all.back()[i] = group.parameters(i);
  return all;
}

/// Members of a group are alike to the last bit after it, and not only they.
void check_groups(std::vector<test::peer_states<double>> const& all, prague const& p, graph const& g) {
  random_groups const groups{.size = p.group, .seed = p.seed};
  for (std::size_t k = 0; k + 1 < all.size(); ++k) {
    std::set<std::vector<double>> different;
    std::set<std::vector<worker_id>> cut;
    for (std::uint32_t i = 0; i < g.size(); ++i) {
      auto const members = groups.group(g, worker_id{i}, iteration_index{static_cast<std::int64_t>(k)});
      cut.insert(members);
      different.insert(all[k + 1][i]);
      for (worker_id const j : members)
        REQUIRE(test::same_bits<double>(all[k + 1][i], all[k + 1][j.index()]));
    }
    REQUIRE(different.size() == cut.size());
  }
}

simulated with_a_slow_one() {
  return {.scenario = {.speed = {.work_cost = 10ms, .slowness = {5}, .jitter = sim::lognormal{.sigma = 0.3}},
                       .network = {.worker_link = {.latency = 1ms}}}};
}

}  // namespace

TEST_CASE("prague: members of a group are alike after it, to the last bit, in any transport", "[peer]") {
  for (std::uint32_t const size : {2U, 3U, 4U})
    for (std::uint32_t const n : {1U, 4U, 7U}) {
      prague const p{.group = size, .seed = n};
      auto const slow = states_of_groups(with_a_slow_one(), p, ring(n), 20);
      check_groups(slow, p, ring(n));
      auto const threads = states_of_groups(in_process{}, p, ring(n), 20);
      CHECK(slow == threads);  // whoever is slow
    }
}

TEST_CASE("prague: the average over all is kept, after every event of any schedule", "[peer]") {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const s = testing::random_peers(seed, {.peers_max = 9, .crashes = false, .leaves = false});
    CHECK(test::loses_mass(prague{.group = static_cast<std::uint32_t>(2 + seed % 4), .seed = seed}, s) == "");
  }
}

TEST_CASE("prague: a group of all is all_reduce, of parameters", "[peer]") {
  peer_group group{with_a_slow_one(), ring(4), prague{.group = 4}, plain_step{}, std::vector<double>{0}};
  group.run([](auto& peer) {
    for ([[maybe_unused]] auto k : peer.iterations(1)) peer.step(std::vector{4.0 * peer.rank()});
  });
  for (std::uint32_t i = 0; i < 4; ++i) CHECK(group.parameters(i)[0] == 6);
}

TEST_CASE("prague: a peer that dies, or leaves, ends the run, with its name", "[peer]") {
  bool const crashes = GENERATE(true, false);
  simulated cluster = with_a_slow_one();
  if (crashes) cluster.scenario.crashes = {{.worker = worker_id{2}, .at = 95ms}};
  peer_group group{cluster, ring(5), prague{}, plain_step{}, std::vector<double>{1}};
  auto const run = [&] {
    group.run([&](auto& peer) {
      for ([[maybe_unused]] auto k : peer.iterations(!crashes && peer.rank() == 2 ? 6 : 30))
        peer.step(std::vector<double>{0});
    });
  };
  CHECK_THROWS_WITH(run(), Contains("prague: peer 2 is lost, and peer ") && Contains("cannot end iteration"));
}

TEST_CASE("prague: a group of one is an error", "[peer]") {
  auto const made = [] {
    peer_group group{simulated{}, ring(3), prague{.group = 1}, plain_step{}, std::vector<double>{1}};
  };
  CHECK_THROWS_WITH(made(), Contains("random_groups") && Contains("for 1"));
}
