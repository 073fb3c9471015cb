// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Run by mpirun, as six ranks: a coordinator and five peers.
#include <rubato/transport/mpi.hpp>
//
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>

#include <rubato/cluster/peer_group.hpp>
#include <rubato/core/error.hpp>
#include <rubato/net/log.hpp>
#include <rubato/net/mpi_network.hpp>
#include <rubato/peer/all_reduce.hpp>
#include <rubato/peer/prague.hpp>
#include <rubato/peer/push_sum.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/transport/in_process.hpp>

#include "transport/peer_groups.hpp"

using namespace rubato;
using Catch::Contains;

namespace {

mpi no_servers() { return {.place = {.servers = 0}}; }

mpi by_messages() { return {.place = {.servers = 0}, .collectives = false}; }

mpi by_a_background_thread() { return {.place = {.servers = 0}, .background = true}; }

/// Two runs of five peers, each compared with the same one of a single process.
template <class Protocol>
void check_peers(Protocol const& p, mpi const& ranks = no_servers()) {
  auto const mixing = mixing_matrix::automatic(ring(5));
  test::floats const initial(3000, 0.5F);
  auto in_one = test::make_group(in_process{}, mixing, p, initial);
  auto apart = test::make_group(ranks, mixing, p, initial);
  for (int runs = 0; runs < 2; ++runs) {
    in_one.run(test::training(8));
    apart.run(test::training(8));
  }
  if (!apart.runtime().has_peers()) return;
  auto const rank = apart.runtime().rank();
  CHECK(test::same_bits<float>(apart.parameters(rank), in_one.parameters(rank)));
  CHECK(test::same_bits<float>(apart.parameters(), in_one.parameters()));
}

auto sums_of_one_process(test::floats const& initial) {
  return test::make_group(in_process{}, mixing_matrix::automatic(ring(5)), all_reduce{}, initial);
}
auto sums_of(mpi const& ranks, test::floats const& initial) {
  return test::make_group(ranks, mixing_matrix::automatic(ring(5)), all_reduce{}, initial);
}

/// Gradients of small whole numbers, whose sum is exact in any order.
auto whole_numbers(std::int64_t iterations) {
  return [iterations](auto& peer) {
    test::floats g(peer.parameters().size());
    for (std::int64_t const k : peer.iterations(iterations)) {
      for (std::size_t i = 0; i < g.size(); ++i)
        g[i] = static_cast<float>((static_cast<std::size_t>(k) + 3 * i + 7 * peer.rank()) % 64) - 20;
      peer.step(g);
    }
  };
}

/// What a run says in this process when it fails.
template <class Group, class Body>
std::string failure_of(Group& group, Body body) {
  net::set_log([](net::log_level, std::string_view) {});
  std::string said;
  try {
    group.run(body);
  } catch (error const& e) {
    said = e.what();
  }
  net::set_log({});
  return said;
}

/// A run that goes well.
template <class Group>
void check_goes_on(Group& group) {
  peer_report const report = group.run(whole_numbers(3));
  if (group.runtime().has_peers()) CHECK(report.peers[group.runtime().rank()].iterations == 3);
}

}  // namespace

TEST_CASE("mpi: all_reduce by MPI's collectives is the in-process run bit for bit where sums are exact",
          "[mpi][peers]") {
  test::floats const initial(GENERATE(1U, 7U, 3000U, 100'000U), 0.5F);
  auto in_one = sums_of_one_process(initial);
  auto apart = sums_of(no_servers(), initial);
  for (int runs = 0; runs < 2; ++runs) {
    in_one.run(whole_numbers(6));
    apart.run(whole_numbers(6));
    if (!apart.runtime().has_peers()) continue;
    auto const rank = apart.runtime().rank();
    CHECK(test::same_bits<float>(apart.parameters(rank), in_one.parameters(rank)));
    CHECK(apart.spread() == 0);
  }
}

TEST_CASE("mpi: all_reduce by MPI's collectives is near the in-process run, and alike at all peers",
          "[mpi][peers]") {
  test::floats const initial(3000, 0.5F);
  auto in_one = sums_of_one_process(initial);
  auto apart = sums_of(no_servers(), initial);
  in_one.run(test::training(8));
  peer_report const report = apart.run(test::training(8));
  if (!apart.runtime().has_peers()) return;
  auto const rank = apart.runtime().rank();
  auto const near = in_one.parameters(rank), mine = apart.parameters(rank);
  double greatest = 0;
  for (std::size_t i = 0; i < mine.size(); ++i)
    greatest = std::max(greatest, std::abs(double{mine[i]} - double{near[i]}));
  CHECK(greatest < 1e-5);
  CHECK(apart.spread() == 0);
  CHECK(test::same_bits<float>(apart.parameters(), mine));
  // One message of the whole gradient an iteration, none of a ring's.
  CHECK(report.peers[rank].updates_sent == 8);
  CHECK(report.peers[rank].updates_reduced == 8 * 4);
  CHECK(report.peers[rank].bytes_sent == 8 * 3000 * sizeof(float));
}

TEST_CASE("mpi: a peer that leaves all_reduce early is named by all others, and the next run goes on", "[mpi][peers]") {
  auto group = sums_of(no_servers(), test::floats(500, 1.0F));
  for (std::int64_t const at : {0, 3}) {
    std::string const said = failure_of(group, [at](auto& peer) {
      test::floats const g(500, 1.0F);
      for (std::int64_t const k : peer.iterations(6)) {
        if (peer.rank() == 2 && k == at) return;
        peer.step(g);
      }
    });
    if (!group.runtime().has_peers()) continue;
    CHECK_THAT(said, Contains("peer 2 is lost") && Contains("iteration " + std::to_string(at)));
  }
  check_goes_on(group);
}

TEST_CASE("mpi: a peer that begins no iterations is named as well, and the next run goes on", "[mpi][peers]") {
  auto group = sums_of(no_servers(), test::floats(500, 1.0F));
  std::string const said = failure_of(group, [](auto& peer) {
    if (peer.rank() == 2) return;
    for ([[maybe_unused]] auto k : peer.iterations(6)) peer.step(test::floats(500, 1.0F));
  });
  if (group.runtime().has_peers()) CHECK_THAT(said, Contains("peer 2 is lost"));
  check_goes_on(group);
}

TEST_CASE("mpi: a body that throws between sums ends the run everywhere, and the next one goes on", "[mpi][peers]") {
  auto group = sums_of(no_servers(), test::floats(500, 1.0F));
  std::string const said = failure_of(group, [](auto& peer) {
    test::floats const g(500, 1.0F);
    for (std::int64_t const k : peer.iterations(1'000'000)) {
      if (peer.rank() == 3 && k == 4) throw error(errc::io, "the disk is full");
      peer.step(g);
    }
  });
  if (group.runtime().has_peers()) CHECK_THAT(said, Contains("the disk is full"));
  check_goes_on(group);
}

TEST_CASE("mpi: stop ends all_reduce everywhere, and the next run goes on", "[mpi][peers]") {
  auto group = sums_of(no_servers(), test::floats(500, 1.0F));
  group.run([&](auto& peer) {
    test::floats const g(500, 1.0F);
    for (std::int64_t const k : peer.iterations(1'000'000)) {
      if (peer.rank() == 1 && k == 4) group.stop();
      peer.step(g);
    }
  });
  check_goes_on(group);
}

TEST_CASE("mpi: groups whose ranks do not all use collectives are refused, and the next one goes on",
          "[mpi][peers]") {
  mpi ranks = no_servers();
  ranks.place.patience = std::chrono::seconds(2);
  bool const differs = net::this_mpi_rank().number == 2;
  if (differs) ranks.collectives = false;
  net::set_log([](net::log_level, std::string_view) {});
  std::string said;
  try {
    auto group = sums_of(ranks, test::floats(5, 1.0F));
    group.run(whole_numbers(3));
  } catch (error const& e) {
    said = e.what();
  }
  net::set_log({});
  if (differs) CHECK_THAT(said, Contains("collectives"));
  auto next = sums_of(no_servers(), test::floats(500, 1.0F));
  check_goes_on(next);
}

TEST_CASE("mpi: peers are those of one process, bit for bit (HOP-3)", "[mpi][peers]") {
  SECTION("hop") { check_peers(hop()); }
  SECTION("hop, with tokens") { check_peers(hop(token_queues{2})); }
  SECTION("hop, by a thread in the background") { check_peers(hop(), by_a_background_thread()); }
  SECTION("all_reduce, without collectives") { check_peers(all_reduce{}, by_messages()); }
  SECTION("push_sum") { check_peers(push_sum{}); }
  SECTION("prague") { check_peers(prague{}); }
  SECTION("push_sum, with a delay") { check_peers(push_sum{.delay = 1}); }
}

TEST_CASE("mpi: peers with backup workers go on without who is slow, by a thread in the background", "[mpi][peers]") {
  constexpr std::int64_t iterations = 100;
  auto const protocol = hop(gather_all_but{1}, token_queues{4});
  auto group = test::make_group(by_a_background_thread(), mixing_matrix::automatic(ring(5)), protocol,
                                test::floats(3000, 100.0F), sgd{.rate = 0.1});
  auto const towards_its_rank = [](auto& peer) {
    test::floats g(peer.parameters().size());
    for ([[maybe_unused]] std::int64_t const k : peer.iterations(iterations)) {
      for (std::size_t i = 0; i < g.size(); ++i) g[i] = peer.parameters()[i] - static_cast<float>(peer.rank());
      if (peer.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      peer.step(g);
    }
  };
  for (int runs = 0; runs < 2; ++runs) {
    peer_report const report = group.run(towards_its_rank);
    if (!group.runtime().has_peers()) continue;
    auto const rank = group.runtime().rank();
    CHECK(report.crashes == 0);
    CHECK(report.peers[rank].iterations == iterations);
    CHECK(report.peers[rank].updates_reduced >= iterations);  // of two neighbors one at least, each time
    CHECK(report.peers[rank].updates_reduced <= 2 * iterations);
    auto const own = group.parameters(rank);
    CHECK(std::ranges::all_of(own, [](float w) { return w > -0.1F && w < 4.1F; }));  // nobody steps further
  }
}

TEST_CASE("mpi: peers where there are servers, or not as many ranks, are refused", "[mpi][peers]") {
  auto const open = [](mpi const& m, std::uint32_t peers) {
    (void)test::make_group(m, mixing_matrix::automatic(ring(peers)), hop());
  };
  CHECK_THROWS_WITH(open({.place = {.servers = 2}}, 3),
                    Contains("peers have no servers, but the number of servers is 2"));
  CHECK_THROWS_WITH(open(no_servers(), 4), Contains("4 nodes, but the number of processes is 5"));
}
