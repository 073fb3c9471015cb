// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Run by mpirun, as six ranks: a coordinator and five peers.
#include <rubato/transport/mpi.hpp>
//
#include <catch2/catch.hpp>

#include <cstdint>

#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/all_reduce.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/transport/in_process.hpp>

#include "transport/peer_groups.hpp"

using namespace rubato;
using Catch::Contains;

namespace {

mpi no_servers() { return {.place = {.servers = 0}}; }

/// Two runs of five peers, each compared with the same one of a single process.
template <class Protocol>
void check_peers(Protocol const& p) {
  auto const mixing = mixing_matrix::automatic(ring(5));
  test::floats const initial(3000, 0.5F);
  auto in_one = test::make_group(in_process{}, mixing, p, initial);
  auto apart = test::make_group(no_servers(), mixing, p, initial);
  for (int runs = 0; runs < 2; ++runs) {
    in_one.run(test::training(8));
    apart.run(test::training(8));
  }
  if (!apart.runtime().has_peers()) return;
  auto const rank = apart.runtime().rank();
  CHECK(test::same_bits<float>(apart.parameters(rank), in_one.parameters(rank)));
  CHECK(test::same_bits<float>(apart.parameters(), in_one.parameters()));
}

}  // namespace

TEST_CASE("mpi: peers are those of one process, bit for bit (HOP-3)", "[mpi][peers]") {
  SECTION("hop") { check_peers(hop()); }
  SECTION("hop, with tokens") { check_peers(hop(token_queues{2})); }
  SECTION("all_reduce") { check_peers(all_reduce{}); }
}

TEST_CASE("mpi: peers where there are servers, or not as many ranks, are refused", "[mpi][peers]") {
  auto const open = [](mpi const& m, std::uint32_t peers) {
    (void)test::make_group(m, mixing_matrix::automatic(ring(peers)), hop());
  };
  CHECK_THROWS_WITH(open({.place = {.servers = 2}}, 3), Contains("peers have no servers, but the number of servers is 2"));
  CHECK_THROWS_WITH(open(no_servers(), 4), Contains("4 nodes, but the number of processes is 5"));
}
