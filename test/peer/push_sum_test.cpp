// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Stochastic gradient push: what is computed, that no weight is lost, and what happens when peers are.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/push_node.hpp>
#include <rubato/peer/push_sum.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/testing/peer_schedule.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <string>
#include <vector>

#include "peer/mass.hpp"
#include "peer/pushed_in_one_place.hpp"
#include "peer/setups.hpp"
#include "seeds.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

simulated uneven(double jitter = 0.8) {
  return {.scenario = {.speed = {.work_cost = 10ms, .slowness = {3}, .jitter = sim::lognormal{.sigma = jitter}},
                       .network = {.worker_link = {.latency = 1ms}}}};
}

/// Of a peer in no run.
double weight_of(peer_runtime const& r, std::uint32_t rank) {
  double weight = 0;
  r.look_at(rank, [&](peer_node const& n) { weight = dynamic_cast<push_node const&>(n).weight(); });
  return weight;
}

graph lopsided() { return graph::from_numbers({{1, 2, 3}, {2}, {0}, {0, 1}}, "lopsided"); }

/// Greatest difference of a run's parameters, in any iteration and after the last, from Algorithm 1 in one loop.
template <class Transport>
double off_paper(Transport const& t, push_sum const& p, graph const& g) {
  constexpr std::int64_t iterations = 25;
  std::vector<double> const first{1, -2, 0.5};
  auto const expected = test::pushed_in_one_place(
      p.over, g, p.delay, 0.125, test::peer_states<double>(g.size(), first), iterations);
  peer_group group{t, mixing_matrix::push(g), p, sgd{.rate = 0.125}, first};
  std::vector<double> worst(g.size());
  auto const compare = [&](std::uint32_t rank, std::int64_t k, auto const& x) {
    auto const& wanted = expected[static_cast<std::size_t>(k)][rank];
    for (std::size_t i = 0; i < wanted.size(); ++i) worst[rank] = std::max(worst[rank], std::abs(x[i] - wanted[i]));
  };
  group.run([&](auto& peer) {
    for (std::int64_t const k : peer.iterations(iterations)) {
      compare(peer.rank(), k, peer.parameters());
      peer.step(test::gradient_at(peer.parameters(), peer.rank(), k));
    }
  });
  for (std::uint32_t i = 0; i < g.size(); ++i) compare(i, iterations, group.parameters(i));
  return *std::ranges::max_element(worst);
}

}  // namespace

TEST_CASE("push_sum: peers come to what Algorithm 1 of the paper comes to", "[peer]") {
  for (std::uint32_t const n : {1U, 2U, 3U, 6U, 8U})
    for (std::int64_t const delay : {0, 1, 3}) {
      CHECK(off_paper(uneven(), push_sum{.delay = delay}, ring(n)) < 1e-12);
      CHECK(off_paper(in_process{}, push_sum{.delay = delay}, ring(n)) < 1e-12);
    }
  for (std::int64_t const delay : {0, 2}) {
    CHECK(off_paper(uneven(), {.over = every_neighbor{}, .delay = delay}, lopsided()) < 1e-12);
    CHECK(off_paper(uneven(), {.over = random_partner{.seed = 5, .probability = 0.6}, .delay = delay}, lopsided()) <
          1e-12);
    CHECK(off_paper(in_process{}, {.over = random_groups{}, .delay = delay}, ring(7)) < 1e-12);
  }
}

TEST_CASE("push_sum: weights and weighted parameters are kept, after every event of any schedule", "[peer]") {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const s = testing::random_peers(seed, {.peers_max = 9, .crashes = false});
    push_sum p{.delay = static_cast<std::int64_t>(seed % 4)};
    if (seed % 5 == 1) p.over = every_neighbor{};
    if (seed % 5 == 2) p.over = random_partner{.seed = seed, .probability = 0.5};
    CHECK(test::loses_mass(p, s) == "");
  }
}

TEST_CASE("push_sum: without doubly stochastic weights all peers come to the average, which Hop refuses", "[peer]") {
  peer_group group{uneven(), mixing_matrix::push(lopsided()), push_sum{.over = every_neighbor{}}, plain_step{},
                   std::vector<double>{0}};
  group.run([](auto& peer) {
    for (std::int64_t const k : peer.iterations(80))
      peer.step(std::vector{k == 0 ? std::ldexp(1.0, static_cast<int>(peer.rank())) : 0.0});
  });
  for (std::uint32_t i = 0; i < 4; ++i) CHECK(group.parameters(i)[0] == Approx(15.0 / 4));
  auto const hops = [] {
    peer_group refused{simulated{}, mixing_matrix::push(lopsided()), hop(), plain_step{}, std::vector<double>{0}};
  };
  CHECK_THROWS_WITH(hops(), Contains("lopsided") && Contains("doubly stochastic") && Contains("push_sum"));
}

TEST_CASE("push_sum: an iteration waits for one message, whatever the number of peers", "[peer]") {
  simulated even = uneven();
  even.scenario.speed = {.work_cost = 10ms};
  peer_group group{even, ring(16), push_sum{}, plain_step{}, std::vector<double>(8)};
  auto const idle = [](auto& peer) {
    for ([[maybe_unused]] auto k : peer.iterations(10)) peer.step(std::vector<double>(8));
  };
  auto const r = group.run(idle);
  CHECK(r.elapsed == 10 * (10ms + 1ms));
  CHECK(r.peers[3].updates_sent == 10);
  peer_group late{even, ring(16), push_sum{.delay = 1}, plain_step{}, std::vector<double>(8)};
  CHECK(late.run(idle).elapsed == 10 * 10ms + 1ms);  // they travel while gradients are computed
}

TEST_CASE("push_sum: the others go on without one that is lost, or leaves", "[peer]") {
  bool const crashes = GENERATE(true, false);
  std::int64_t const delay = GENERATE(0, 2);
  simulated cluster = uneven();
  if (crashes) cluster.scenario.crashes = {{.worker = worker_id{2}, .at = 95ms}};
  peer_group group{cluster, ring(6), push_sum{.delay = delay}, plain_step{}, std::vector<double>{1}};
  auto const r = group.run([&](auto& peer) {
    for (std::int64_t const k : peer.iterations(!crashes && peer.rank() == 4 ? 7 : 30)) {
      if (!crashes && peer.rank() == 2 && k == 3) break;
      peer.step(std::vector<double>{0});
    }
  });
  for (std::uint32_t const i : {0U, 1U, 3U, 5U}) {
    CHECK(r.peers[i].iterations == 30);
    CHECK(group.parameters(i)[0] == Approx(1));
  }
  CHECK(r.crashes == (crashes ? 1 : 0));
}

TEST_CASE("push_sum: whatever the delay, a peer keeps half of its weight, and steps do not grow", "[peer]") {
  std::int64_t const delay = GENERATE(1, 2, 5, 16, 40);
  peer_group group{simulated{}, ring(8), push_sum{.delay = delay}, sgd{.rate = 0.5}, std::vector<double>{1}};
  std::vector<double> greatest(8);
  group.runtime().on_event([&] {
    for (std::uint32_t i = 0; i < 8; ++i) CHECK(weight_of(group.runtime(), i) >= 0.25);  // of a half a half
  });
  group.run([&](auto& peer) {
    for ([[maybe_unused]] auto k : peer.iterations(6 * delay + 20)) {
      double const x = peer.parameters()[0];
      greatest[peer.rank()] = std::max(greatest[peer.rank()], std::abs(x));
      peer.step(std::vector{x});
    }
  });
  CHECK(*std::ranges::max_element(greatest) == 1);
  for (std::uint32_t i = 0; i < 8; ++i) CHECK(std::abs(group.parameters(i)[0]) < 1e-3);
}

TEST_CASE("push_sum: a step of those who are left counts one of each, as before a loss", "[peer]") {
  std::uint32_t const n = GENERATE(4U, 8U, 16U);
  simulated cluster = uneven(0);
  cluster.scenario.speed = {.work_cost = 1ms};
  cluster.scenario.crashes = {{.worker = worker_id{n - 1}, .at = 10500us}};
  peer_group group{cluster, ring(n), push_sum{}, plain_step{}, std::vector<double>{0}};
  group.run([](auto& peer) {
    for ([[maybe_unused]] auto k : peer.iterations(200)) peer.step(std::vector<double>{1});
  });
  for (std::uint32_t i = 0; i + 1 < n; ++i) CHECK(group.parameters(i)[0] == Approx(200).epsilon(0.02));
}

TEST_CASE("push_sum: who gets nothing any more keeps weight enough for its steps", "[peer]") {
  simulated cluster = uneven();
  cluster.scenario.crashes = {{.worker = worker_id{2}, .at = 50ms}, {.worker = worker_id{3}, .at = 50ms}};
  peer_group group{cluster, ring(4), push_sum{}, sgd{.rate = 0.1}, std::vector<double>{1}};
  group.run([](auto& peer) {
    for ([[maybe_unused]] auto k : peer.iterations(3000)) peer.step(std::vector{peer.parameters()[0] - 2});
  });
  for (std::uint32_t const i : {0U, 1U}) {
    CHECK(weight_of(group.runtime(), i) >= 0.125);
    CHECK(group.parameters(i)[0] == Approx(2));
  }
}

TEST_CASE("push_sum: a schedule that names no other peer ends the run, with what it said", "[peer]") {
  struct beyond {
    std::vector<worker_id> to;
    [[nodiscard]] std::vector<worker_id> out(graph const&, worker_id i, iteration_index k) const {
      return i == worker_id{1} && k.value() == 3 ? to : std::vector<worker_id>{};
    }
    [[nodiscard]] std::vector<worker_id> in(graph const&, worker_id, iteration_index) const { return {}; }
    [[nodiscard]] std::string text() const { return "beyond"; }
  };
  auto const run = [](std::vector<worker_id> to) {
    peer_group group{simulated{}, ring(4), push_sum{.over = beyond{std::move(to)}}, plain_step{},
                     std::vector<double>{1}};
    group.run([](auto& peer) {
      for ([[maybe_unused]] auto k : peer.iterations(5)) peer.step(std::vector<double>{0});
    });
  };
  for (auto const& to : {std::vector{worker_id{4}}, {worker_id{1}}, {worker_id{2}, worker_id{2}},
                         {worker_id{3}, worker_id{0}}, {worker_id{0}, worker_id{1}}})
    CHECK_THROWS_WITH(run(to), Contains("push_sum") && Contains("beyond") && Contains("peer 1 sends to " +
                      std::to_string(to[0].value())) && Contains("iteration 3") && Contains("of 4 peers"));
  CHECK_NOTHROW(run({worker_id{0}, worker_id{2}, worker_id{3}}));
  struct others : every_neighbor {  // than those that it calls partners
    [[nodiscard]] static std::vector<worker_id> out(graph const&, worker_id i, iteration_index) {
      return {worker_id{(i.value() + 2) % 4}};
    }
  };
  peer_group group{simulated{}, ring(4), push_sum{.over = others{}}, plain_step{}, std::vector<double>{1}};
  CHECK_THROWS_WITH(group.run([](auto& peer) {
    for ([[maybe_unused]] auto k : peer.iterations(1)) peer.step(std::vector<double>{0});
  }), Contains("sends to 2") && Contains("partners"));
}

TEST_CASE("push_sum: who ends tells those only whom it could meet", "[peer]") {
  constexpr std::uint32_t n = 300;
  std::uint64_t most = 0;
  for (exchange_rules const& over : {exchange_rules(every_neighbor{}), exchange_rules(random_partner{}),
                                     exchange_rules(one_peer_exponential{})}) {
    peer_group group{simulated{.stack_bytes = 64 * 1024}, ring(n), push_sum{.over = over}, plain_step{},
                     std::vector<double>{0}};
    most = std::max(most, group.run([](auto& peer) {
      for ([[maybe_unused]] auto k : peer.iterations(2)) peer.step(std::vector<double>{0});
    }).events);
  }
  CHECK(most < 30 * n);  // a goodbye to everybody would be as many as there are, each
}

TEST_CASE("push_sum: messages that no peer sends are refused", "[peer]") {
  auto const mixing = mixing_matrix::uniform(ring(4));
  std::vector<double> const initial(2);
  auto const node = push_sum{}.make_node(test::setup_of(mixing, worker_id{1}, initial, plain_step{}));
  auto const message = [](double weight, std::size_t size = 2, std::uint8_t kind = 0) {
    update u;
    u.values.resize_bytes(size * sizeof(double));
    return peer_message{.kind = kind, .number = std::bit_cast<std::int64_t>(weight),
                        .parameters = shared_update(std::move(u))};
  };
  outbox out;
  for (double const weight : {-0.25, 21.0, 1e9, std::numeric_limits<double>::quiet_NaN()})
    CHECK_FALSE(node->deliver(worker_id{0}, message(weight), out));
  CHECK_FALSE(node->deliver(worker_id{0}, message(0.5, 3), out));
  CHECK_FALSE(node->deliver(worker_id{0}, message(0.5, 2, 2), out));
  CHECK_FALSE(node->deliver(worker_id{1}, message(0.5), out));
  CHECK_FALSE(node->deliver(worker_id{4}, message(0.5), out));
  int taken = 0;
  while (taken < 10'000 && node->deliver(worker_id{0}, message(0.5), out)) ++taken;
  CHECK(taken == 4096);
  CHECK(node->deliver(worker_id{3}, message(0.5, 0, 1), out));
  CHECK_FALSE(node->deliver(worker_id{3}, message(0.5), out));  // after its goodbye
  CHECK(out.empty());
}

TEST_CASE("push_sum: options that cannot be meant", "[peer]") {
  auto const made = [](push_sum const& p) {
    peer_group group{simulated{}, ring(3), p, plain_step{}, std::vector<double>{1}};
  };
  CHECK_THROWS_WITH(made({.delay = -1}), Contains("push_sum") && Contains("-1"));
  CHECK_THROWS_WITH(made({.over = random_groups{.size = 0}}), Contains("random_groups"));
}

TEST_CASE("push_sum: peers agree on what they run in words", "[peer]") {
  auto const text = [](push_sum const& p) {
    auto const mixing = mixing_matrix::uniform(ring(4));
    std::vector<double> const initial(2);
    return p.make_node(test::setup_of(mixing, worker_id{1}, initial, plain_step{}))->agreement();
  };
  CHECK(text({}) == "push_sum, one-peer exponential, delay 0, steps by weight");
  CHECK(text({.delay = 1}) != text({}));
  CHECK(text({.over = random_groups{.seed = 4}}) != text({.over = random_groups{.seed = 5}}));
}
