// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Peers that are used, or treated, as they should not be; and the baselines that Hop is compared with.
#include <Eigen/Core>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/ad_psgd.hpp>
#include <rubato/peer/all_reduce.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/transport/simulated.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "peer/setups.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

simulated slow_first(double factor) {
  return {.scenario = {.speed = {.work_cost = 10ms, .slowness = {factor}},
                       .network = {.worker_link = {.latency = 1ms}}}};
}

/// Every peer makes `n` iterations in which nothing is added.
auto idle(std::int64_t n, std::size_t size) {
  return [n, size](auto& peer) {
    std::vector<double> const zero(size);
    for ([[maybe_unused]] auto k : peer.iterations(n)) peer.step(zero);
  };
}

}  // namespace

TEST_CASE("peer: a body that catches lost_error has no further iterations", "[peer]") {
  auto const catches = [](auto protocol) {
    peer_group group{simulated{}, ring(3), protocol, plain_step{}, std::vector<double>{1}};
    int caught = 0;
    group.run([&](auto& peer) {
      for (auto k : peer.iterations(10)) {
        if (peer.rank() == 0 && k == 3) break;
        try {
          peer.step(std::vector<double>{0});
        } catch (lost_error const&) {
          ++caught;
          CHECK_THROWS_AS(peer.step(std::vector<double>{0}), usage_error);
        }
      }
    });
    CHECK(caught == 2);
  };
  catches(hop());
  catches(all_reduce{});
}

TEST_CASE("peer: work that is none is an error", "[peer]") {
  peer_group group{simulated{}, ring(2), hop(), plain_step{}, std::vector<double>{1}};
  for (double const work : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_AS(group.run([&](auto& peer) {
      for ([[maybe_unused]] auto k : peer.iterations(1)) peer.step(std::vector<double>{0}, work);
    }), usage_error);
}

namespace {

/// Makes no node for the second peer.
struct half_made {
  std::unique_ptr<peer_node> make_node(node_setup const& setup) const {
    return setup.self == worker_id{1} ? nullptr : all_reduce{}.make_node(setup);
  }
};

}  // namespace

TEST_CASE("peer: a protocol that makes no node is an option_error", "[peer]") {
  auto const make = [] { peer_group const group{simulated{}, ring(2), half_made{}, sgd{}, std::vector<float>(1)}; };
  CHECK_THROWS_AS(make(), option_error);
  CHECK_THROWS_WITH(make(), "peer_group: make_node() gives nothing for peer 1, expected a node");
}

TEST_CASE("peer: computing and waiting make up the run time, of a peer that dies too", "[peer]") {
  simulated cluster = slow_first(3);
  cluster.scenario.crashes = {{.worker = worker_id{1}, .at = 45ms}, {.worker = worker_id{2}, .at = 55ms}};
  peer_group group{cluster, complete(4), hop(gather_all_but{3}, token_queues{1}), plain_step{},
                   std::vector<double>{1}};
  peer_report const r = group.run(idle(10, 1));
  auto const time = [&](std::size_t i) { return r.peers[i].compute + r.peers[i].wait(); };
  CHECK(time(1) == 45ms);
  CHECK(time(2) == 55ms);
  CHECK(time(0) == r.elapsed);
  CHECK(r.peers[1].wait() > 0ms);
  CHECK(r.crashes == 2);
}

TEST_CASE("peer: momentum starts anew with each run", "[peer]") {
  peer_group group{simulated{}, ring(1), hop(), sgd{.rate = 1, .momentum = 0.5},
                   std::vector<double>{0}};
  auto const one_step = [&](double gradient) {
    group.run([&](auto& peer) {
      for ([[maybe_unused]] auto k : peer.iterations(1)) peer.step(std::vector<double>{gradient});
    });
    return group.parameters()[0];
  };
  CHECK(one_step(-1) == 1);
  CHECK(one_step(0) == 1);
}

TEST_CASE("hop: options that cannot be meant at a place in the graph", "[peer]") {
  auto const made = [](mixing_matrix const& m, auto protocol, auto step) {
    peer_group group{simulated{}, m, protocol, step, std::vector<float>{1}};
  };
  auto const uniform = mixing_matrix::uniform(ring(4));
  Eigen::MatrixXd swap(2, 2);
  swap << 0, 1, 1, 0;
  auto const no_own = mixing_matrix::given(graph_of(swap), swap);
  CHECK_NOTHROW(made(no_own, hop(), plain_step{}));
  CHECK_THROWS_WITH(made(no_own, hop(gather_newest{5}), plain_step{}),
                    Contains("own update of node 0 counts 0"));
  CHECK_THROWS_WITH(made(uniform, hop(gather_newest{staleness::infinite()}), plain_step{}),
                    Contains("staleness must be finite"));
  CHECK_THROWS_WITH(
      made(uniform, hop(gather_newest{std::numeric_limits<std::int64_t>::max() - 1}), plain_step{}),
      Contains("staleness must be finite"));
  CHECK_THROWS_WITH(made(uniform, hop(gather_all_but{0}, token_queues{2}, bounded_jump{}), plain_step{}),
                    Contains("jump needs backup workers") && Contains("node 0"));
  CHECK_THROWS_WITH(made(uniform, hop(gather_all_but{3}, token_queues{2}), plain_step{}),
                    Contains("node 0 has 3 updates"));
  CHECK_THROWS_WITH(made(uniform, hop(token_queues{0}), plain_step{}), Contains("given 0"));
  CHECK_THROWS_WITH(made(uniform, hop(), sgd{.rate = 1e300}), Contains("rate") && Contains("1e+300"));
  CHECK_THROWS_WITH(made(uniform, hop(), sgd{.rate = -1e-9}), Contains("-1e-09"));
  CHECK_THROWS_WITH(made(uniform, hop(), sgd{.momentum = 1 - 1e-12}), Contains("momentum"));
}

TEST_CASE("hop: a reduce whose weights add up to nothing ends the run", "[peer]") {
  struct minus {
    double weight(update_info const& u) const noexcept { return u.from == u.to ? 1 : -1; }
  };
  peer_group group{simulated{}, ring(3), hop(minus{}), plain_step{}, std::vector<double>{1}};
  CHECK_THROWS_WITH(group.run(idle(3, 1)), Contains("weights of a reduce"));
}

TEST_CASE("hop: a reduce with a weight below 0 ends the run, whatever the sum", "[peer]") {
  struct by_opposition {
    double weight(update_info const& u) const noexcept { return u.from == u.to ? 3 : -1; }
  };
  peer_group group{simulated{}, ring(3), hop(gather_all{}, by_opposition{}), plain_step{}, std::vector<double>{1}};
  CHECK_THROWS_WITH(group.run([](auto& peer) {
    for ([[maybe_unused]] auto k : peer.iterations(2)) peer.step(std::vector<double>{0});
  }), Contains("weights of a reduce of peer") && Contains("0 or more"));
}

TEST_CASE("ad_psgd: exchanges keep the sum, also of a peer that leaves in the middle", "[peer]") {
  simulated cluster = slow_first(2.5);
  cluster.scenario.speed.jitter = sim::lognormal{.sigma = 0.5};
  std::int64_t const stay = GENERATE(0, 1, 7, 40);
  peer_group group{cluster, ring(4), ad_psgd{.seed = 3}, plain_step{}, std::vector<double>{0}};
  group.run([](auto& peer) {  // parameters differ, and are sums of powers of two
    for ([[maybe_unused]] auto k : peer.iterations(1))
      peer.step(std::vector{std::ldexp(1.0, static_cast<int>(40 + 3 * peer.rank() % 8))});
  });
  auto const sum = [&] {
    double all = 0;
    for (std::uint32_t i = 0; i < 4; ++i) all += group.parameters(i)[0];
    return all;
  };
  double const before = sum();
  double const spread = group.spread();
  group.run([stay](auto& peer) {
    for (auto k : peer.iterations(40)) {
      if (peer.rank() < 2 && k == stay) break;
      peer.step(std::vector<double>{0});
    }
  });
  CHECK(sum() == before);
  CHECK(group.spread() < spread);
}

TEST_CASE("ad_psgd: only on undirected bipartite graphs", "[peer]") {
  auto const made = [](graph const& g) {
    peer_group group{simulated{}, g, ad_psgd{}, plain_step{}, std::vector<double>{1}};
    group.run(idle(5, 1));
  };
  CHECK_THROWS_WITH(made(ring(5)), Contains("not bipartite"));
  CHECK_THROWS_WITH(made(directed_ring(4)), Contains("directed"));
  for (std::uint32_t n : {1U, 2U, 6U}) CHECK_NOTHROW(made(ring(n)));
}

TEST_CASE("ad_psgd: a dead partner holds nobody up", "[peer]") {
  simulated cluster = slow_first(1);
  cluster.scenario.crashes = {{.worker = worker_id{1}, .at = 25ms}, {.worker = worker_id{3}, .at = 41ms}};
  peer_group group{cluster, ring(4), ad_psgd{}, plain_step{}, std::vector<double>{1}};
  peer_report const r = group.run(idle(20, 1));
  CHECK(r.peers[0].iterations == 20);
  CHECK(r.peers[2].iterations == 20);
  CHECK(group.parameters() == std::vector<double>{1});
}

TEST_CASE("all_reduce: replicas are those of one worker with the mean gradient, to the last bit", "[peer]") {
  std::uint32_t const peers = GENERATE(1U, 2U, 3U, 7U);
  std::size_t const size = GENERATE(std::size_t{1}, std::size_t{5}, std::size_t{23});
  auto const gradient = [](std::uint32_t rank, std::int64_t k, std::size_t i) {
    return static_cast<double>((rank * 7 + static_cast<std::size_t>(k) * 3 + i) % 16);  // sums are exact
  };
  peer_group group{slow_first(3), ring(peers), all_reduce{}, sgd{.rate = 0.125, .momentum = 0.5},
                   std::vector<double>(size)};
  peer_report const r = group.run([&](auto& peer) {
    std::vector<double> g(size);
    for (auto k : peer.iterations(9)) {
      for (std::size_t i = 0; i < size; ++i) g[i] = gradient(peer.rank(), k, i);
      peer.step(g);
    }
  });
  std::vector<double> x(size), v(size);
  for (std::int64_t k = 0; k < 9; ++k)
    for (std::size_t i = 0; i < size; ++i) {
      double mean = 0;
      for (std::uint32_t p = 0; p < peers; ++p) mean += gradient(p, k, i);
      v[i] = 0.5 * v[i] + mean / peers;
      x[i] -= 0.125 * v[i];
    }
  for (std::uint32_t i = 0; i < peers; ++i) CHECK(group.parameters(i) == x);
  CHECK(r.peers[0].updates_sent == 9 * 2 * (peers - 1));
}

TEST_CASE("all_reduce: costs 2(n - 1) messages of an n-th, one after the other", "[peer]") {
  simulated cluster = slow_first(1);
  cluster.scenario.network.header_bytes = 0;
  peer_group group{cluster, ring(4), all_reduce{}, plain_step{}, std::vector<double>(400)};
  peer_report const r = group.run(idle(5, 400));
  CHECK(r.elapsed == 5 * (10ms + 6 * 1ms));  // without a limit of bandwidth: latencies only
  CHECK(r.peers[2].bytes_sent == 5 * 6 * (100 * sizeof(double) + 1) + 1);  // a goodbye as well
}

TEST_CASE("all_reduce: a large chunk goes in pieces, which others send on while the next are on their way", "[peer]") {
  std::uint32_t const peers = GENERATE(2U, 3U);
  constexpr std::size_t piece = (std::size_t{1} << 19) / sizeof(double);
  std::size_t const pieces = peers == 2 ? 20 : 3;  // twenty are not sent all at once
  // The last chunk is shorter than the others, and the last piece of each.
  std::size_t const size = peers * ((pieces - 1) * piece + 5) - 1;
  simulated cluster = slow_first(1);
  cluster.scenario.network.header_bytes = 0;
  cluster.scenario.network.worker_link = {.latency = 1us, .bandwidth = 1'000'000'000};
  auto const gradient = [](std::uint32_t rank, std::int64_t k, std::size_t i) {
    return static_cast<double>((rank * 7 + static_cast<std::size_t>(k) * 3 + i) % 16);  // sums are exact
  };
  peer_group group{cluster, ring(peers), all_reduce{}, sgd{.rate = 0.125, .momentum = 0.5}, std::vector<double>(size)};
  peer_report const r = group.run([&](auto& peer) {
    std::vector<double> g(size);
    for (auto k : peer.iterations(2)) {
      for (std::size_t i = 0; i < size; ++i) g[i] = gradient(peer.rank(), k, i);
      peer.step(g);
    }
  });
  std::vector<double> x(size), v(size);
  for (std::int64_t k = 0; k < 2; ++k)
    for (std::size_t i = 0; i < size; ++i) {
      double mean = 0;
      for (std::uint32_t p = 0; p < peers; ++p) mean += gradient(p, k, i);
      v[i] = 0.5 * v[i] + mean / peers;
      x[i] -= 0.125 * v[i];
    }
  for (std::uint32_t i = 0; i < peers; ++i) CHECK((group.parameters(i) == x));
  std::uint64_t const rounds = 2 * 2 * (peers - 1);
  CHECK(r.peers[0].updates_sent == rounds);  // whatever the pieces
  std::uint64_t bytes = 0;
  for (peer_metrics const& p : r.peers) bytes += p.bytes_sent;
  CHECK(bytes == rounds * size * sizeof(double) + peers * (rounds * pieces + 1));  // a goodbye as well
  // All that a peer sends takes so long, and of what waits for it a piece, not a chunk, for each round.
  duration const sending = sim::transfer_time(2 * (peers - 1) * (size / peers + 1) * sizeof(double), 1'000'000'000);
  duration const of_piece = sim::transfer_time(piece * sizeof(double), 1'000'000'000);
  CHECK(r.elapsed - 2 * 10ms < 2 * (sending + 2 * (peers - 1) * (of_piece + 10us)));
}

TEST_CASE("all_reduce: a dead peer ends the run", "[peer]") {
  simulated cluster = slow_first(1);
  cluster.scenario.crashes = {{.worker = worker_id{2}, .at = 25ms}};
  peer_group group{cluster, ring(4), all_reduce{}, plain_step{}, std::vector<double>(8)};
  CHECK_THROWS_WITH(group.run(idle(20, 8)), Contains("peer 2 is lost"));
}

TEST_CASE("all_reduce: chunks that cannot be are refused", "[peer]") {
  auto const mixing = mixing_matrix::uniform(ring(4));
  std::vector<double> const initial(8);
  auto const node = all_reduce{}.make_node(test::setup_of(mixing, worker_id{1}, initial, plain_step{}));
  auto const chunk = [](std::vector<double> const& numbers, std::uint8_t kind = 0, std::int64_t round = 0) {
    update u;
    u.values.append(std::as_bytes(std::span(numbers)));
    return peer_message{.kind = kind, .number = round, .parameters = shared_update(std::move(u))};
  };
  outbox out;
  CHECK_FALSE(node->deliver(worker_id{2}, chunk({1, 2}), out));
  CHECK_FALSE(node->deliver(worker_id{0}, chunk({1, 2, 3, 4}), out));
  CHECK_FALSE(node->deliver(worker_id{0}, chunk({1, 2}, 2), out));
  CHECK_FALSE(node->deliver(worker_id{0}, chunk({1, 2}, 0, 6), out));
  CHECK_FALSE(node->deliver(worker_id{0}, chunk({1, 2}, 0, -1), out));
  int taken = 0;
  while (taken < 100 && node->deliver(worker_id{0}, chunk({1, 2}), out)) ++taken;
  CHECK(taken == 8);
}

namespace {

/// The end of a peer that hears of nobody: counts what is sent to a neighbor that is near, or is not known to be.
class unheard_endpoint final : public peer_endpoint {
 public:
  struct nothing_comes {};

  explicit unheard_endpoint(bool near) : near_(near) {}
  int posted = 0;

  void post(worker_id, peer_message&&) override { ++posted; }
  void wait() override { throw nothing_comes{}; }
  [[nodiscard]] bool is_near(worker_id) const noexcept override { return near_; }
  [[nodiscard]] time_point now() const override { return {}; }
  void charge(double) override {}
  void checkpoint() override {}

 private:
  void lock() override {}
  void unlock() override {}
  bool near_;
};

}  // namespace

TEST_CASE("all_reduce: much is under way to a peer that is far, and little to one that is near", "[peer]") {
  auto const mixing = mixing_matrix::uniform(ring(2));
  std::vector<double> const initial(4'000'000);  // a chunk of 31 pieces
  bool const near = GENERATE(false, true);
  auto const node = all_reduce{}.make_node(test::setup_of(mixing, worker_id{0}, initial, plain_step{}));
  unheard_endpoint end(near);
  node->begin(end, 1);
  CHECK_THROWS_AS(node->step(end, std::as_bytes(std::span(initial))), unheard_endpoint::nothing_comes);
  CHECK(end.posted == (near ? 1 : 16));
}
