// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "rubato/peer/topologies.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "rubato/core/error.hpp"

using namespace rubato;

namespace {

using list = std::vector<std::uint32_t>;
using lists = std::vector<list>;

lists edges_of(graph const& g) {
  lists out(g.size());
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    for (worker_id const j : g.out(worker_id(i))) out[i].push_back(j.value());
  }
  return out;
}

std::uint32_t diameter(graph const& g) {
  std::uint32_t most = 0;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    auto const distances = g.distances_from(worker_id(i));
    most = std::max(most, *std::max_element(distances.begin(), distances.end()));
  }
  return most;
}

std::size_t degree(graph const& g) { return g.out(worker_id(0)).size(); }

constexpr std::uint32_t far_too_many = std::numeric_limits<std::uint32_t>::max();

}  // namespace

TEST_CASE("topologies: ring", "[peer][graph]") {
  CHECK(edges_of(ring(1)) == lists{{}});
  CHECK(edges_of(ring(2)) == lists{{1}, {0}});
  CHECK(edges_of(ring(3)) == lists{{1, 2}, {0, 2}, {0, 1}});
  CHECK(edges_of(ring(5)) == lists{{1, 4}, {0, 2}, {1, 3}, {2, 4}, {0, 3}});
  CHECK(ring(16).distances_from(worker_id(3)) ==
        list{3, 2, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 7, 6, 5, 4});
  CHECK(ring(6).two_coloring() == std::vector<bool>{false, true, false, true, false, true});
  CHECK_FALSE(ring(5).two_coloring());
  CHECK(ring(7).name() == "ring");
}

TEST_CASE("topologies: directed ring", "[peer][graph]") {
  CHECK(edges_of(directed_ring(1)) == lists{{}});
  CHECK(edges_of(directed_ring(2)) == lists{{1}, {0}});
  CHECK(edges_of(directed_ring(3)) == lists{{1}, {2}, {0}});
  graph const g = directed_ring(6);
  CHECK(g.distances_from(worker_id(2)) == list{4, 5, 0, 1, 2, 3});
  CHECK_FALSE(g.undirected());
  CHECK(g.regular());
}

TEST_CASE("topologies: ring-based", "[peer][graph]") {
  CHECK(edges_of(ring_based(1)) == lists{{}});
  CHECK(edges_of(ring_based(2)) == lists{{1}, {0}});
  CHECK(edges_of(ring_based(3)) == edges_of(ring(3)));
  CHECK(edges_of(ring_based(4)) == edges_of(complete(4)));
  CHECK(edges_of(ring_based(5)) == edges_of(complete(5)));
  CHECK(edges_of(ring_based(6)) ==
        lists{{1, 3, 5}, {0, 2, 4}, {1, 3, 5}, {0, 2, 4}, {1, 3, 5}, {0, 2, 4}});
  CHECK(edges_of(ring_based(7))[0] == list{1, 3, 4, 6});
  CHECK(edges_of(ring_based(7))[5] == list{1, 2, 4, 6});
  CHECK(ring_based(8).distances_from(worker_id(0)) == list{0, 1, 2, 2, 1, 2, 2, 1});
  CHECK(ring_based(16).distances_from(worker_id(0)) ==
        list{0, 1, 2, 3, 4, 4, 3, 2, 1, 2, 3, 4, 4, 3, 2, 1});
}

TEST_CASE("topologies: ring-based graphs are undirected and regular", "[peer][graph]") {
  for (std::uint32_t n = 4; n <= 33; ++n) {
    INFO(n);
    graph const g = ring_based(n);
    CHECK(g.undirected());
    CHECK(g.regular());
    CHECK(degree(g) == (n % 2 == 0 ? 3 : 4));
  }
}

TEST_CASE("topologies: double ring", "[peer][graph]") {
  CHECK(edges_of(double_ring(2)) == lists{{1}, {0}});
  CHECK(edges_of(double_ring(4)) == lists{{1, 2}, {0, 3}, {0, 3}, {1, 2}});
  graph const g = double_ring(16);
  CHECK(edges_of(g)[0] == list{1, 4, 7, 8});
  CHECK(edges_of(g)[11] == list{3, 10, 12, 15});
  CHECK(g.undirected());
  CHECK(g.regular());
  CHECK(g.distances_from(worker_id(0)) == list{0, 1, 2, 2, 1, 2, 2, 1, 1, 2, 3, 3, 2, 3, 3, 2});
  CHECK_THROWS_WITH(double_ring(7),
                    "graph double-ring: must have an even number of nodes, but has 7");
  CHECK_THROWS_AS(double_ring(1), option_error);
}

TEST_CASE("topologies: complete", "[peer][graph]") {
  CHECK(edges_of(complete(1)) == lists{{}});
  CHECK(edges_of(complete(2)) == lists{{1}, {0}});
  CHECK(edges_of(complete(4)) == lists{{1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 1, 2}});
  graph const g = complete(1000);
  CHECK(g.edges() == 999'000);
  CHECK(g.distances_from(worker_id(999))[7] == 1);
  CHECK(g.undirected());
  CHECK(g.regular());
}

TEST_CASE("topologies: grid", "[peer][graph]") {
  CHECK(edges_of(grid(1, 1)) == lists{{}});
  CHECK(edges_of(grid(1, 3)) == lists{{1}, {0, 2}, {1}});
  CHECK(edges_of(grid(3, 1)) == lists{{1}, {0, 2}, {1}});
  CHECK(edges_of(grid(2, 3)) == lists{{1, 3}, {0, 2, 4}, {1, 5}, {0, 4}, {1, 3, 5}, {2, 4}});
  CHECK(grid(3, 4).distances_from(worker_id(0)) == list{0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5});
  CHECK(grid(3, 4).name() == "grid:3x4");
  CHECK(grid(2, 2).two_coloring() == std::vector<bool>{false, true, true, false});
  CHECK_THROWS_WITH(grid(0, 3), "graph grid:0x3: must have between 1 and 1048576 nodes, but has 0");
  CHECK_THROWS_AS(grid(3, 0), option_error);
}

TEST_CASE("topologies: star", "[peer][graph]") {
  CHECK(edges_of(star(1)) == lists{{}});
  CHECK(edges_of(star(2)) == lists{{1}, {0}});
  CHECK(edges_of(star(4)) == lists{{1, 2, 3}, {0}, {0}, {0}});
  CHECK(star(5).distances_from(worker_id(2)) == list{1, 2, 0, 2, 2});
  CHECK(star(4).two_coloring() == std::vector<bool>{false, true, true, true});
}

TEST_CASE("topologies: exponential", "[peer][graph]") {
  CHECK(edges_of(exponential(1)) == lists{{}});
  CHECK(edges_of(exponential(2)) == lists{{1}, {0}});
  CHECK(edges_of(exponential(3)) == lists{{1, 2}, {0, 2}, {0, 1}});
  CHECK(edges_of(exponential(5)) == lists{{1, 2, 4}, {0, 2, 3}, {1, 3, 4}, {0, 2, 4}, {0, 1, 3}});
  graph const g = exponential(16);
  CHECK(degree(g) == 4);
  CHECK(g.regular());
  CHECK_FALSE(g.undirected());
  // The distance is the number of ones in the binary digits of what lies between.
  CHECK(g.distances_from(worker_id(0)) == list{0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4});
  CHECK(degree(exponential(17)) == 5);
}

TEST_CASE("topologies: one leader per machine stands in the ring", "[peer][graph]") {
  CHECK(edges_of(hierarchical({1})) == lists{{}});
  CHECK(edges_of(hierarchical({3})) == edges_of(complete(3)));
  CHECK(edges_of(hierarchical({1, 1})) == lists{{1}, {0}});
  CHECK(edges_of(hierarchical({2, 2})) == lists{{1, 2}, {0}, {0, 3}, {2}});
  CHECK(edges_of(hierarchical({1, 1, 1, 1, 1})) == edges_of(ring(5)));
  graph const g = hierarchical({3, 1, 2, 2});
  CHECK(edges_of(g) == lists{{1, 2, 3, 6}, {0, 2}, {0, 1}, {0, 4}, {3, 5, 6}, {4}, {0, 4, 7}, {6}});
  CHECK(g.undirected());
  CHECK(g.distance(worker_id(1), worker_id(5)) == 4);
  CHECK(g.name() == "hierarchical:3,1,2,2");
}

TEST_CASE("topologies: two nodes per machine stand in the ring", "[peer][graph]") {
  CHECK(edges_of(hierarchical_two({1})) == lists{{}});
  CHECK(edges_of(hierarchical_two({3})) == edges_of(complete(3)));
  CHECK(edges_of(hierarchical_two({1, 1})) == lists{{1}, {0}});
  CHECK(edges_of(hierarchical_two({2, 2})) == lists{{1, 3}, {0, 2}, {1, 3}, {0, 2}});
  CHECK(edges_of(hierarchical_two({1, 2})) == lists{{1, 2}, {0, 2}, {0, 1}});
  graph const g = hierarchical_two({3, 1, 2, 2});
  CHECK(edges_of(g) == lists{{1, 2, 7}, {0, 2}, {0, 1, 3}, {2, 4}, {3, 5}, {4, 6}, {5, 7}, {0, 6}});
  CHECK(g.undirected());
  CHECK(g.name() == "hierarchical-two:3,1,2,2");
}

TEST_CASE("topologies: machines without nodes are rejected", "[peer][graph]") {
  CHECK_THROWS_WITH(hierarchical({}),
                    "graph hierarchical: must have at least 1 machine, but has 0");
  CHECK_THROWS_WITH(hierarchical_two({2, 0, 2}),
                    "graph hierarchical-two: machine 1 must have at least 1 node, but has 0");
}

TEST_CASE("topologies: no nodes and far too many are rejected", "[peer][graph]") {
  using make = graph (*)(std::uint32_t);
  for (make const f : {make(ring), make(directed_ring), make(ring_based), make(complete),
                       make(star), make(exponential), make(double_ring)}) {
    CHECK_THROWS_AS(f(0), option_error);
    CHECK_THROWS_AS(f(far_too_many), option_error);
    CHECK_THROWS_AS(f(far_too_many - 1), option_error);
    CHECK_THROWS_AS(f((1u << 20) + 2), option_error);
  }
  CHECK_THROWS_WITH(ring(0), "graph ring: must have between 1 and 1048576 nodes, but has 0");
  CHECK_THROWS_WITH(complete(2049),
                    "graph complete: must have at most 4194304 edges, but 2049 nodes make 4196352");
  CHECK_THROWS_AS(grid(far_too_many, far_too_many), option_error);
  CHECK_THROWS_AS(hierarchical({far_too_many, far_too_many}), option_error);
  CHECK_THROWS_AS(hierarchical_two({3000, 1}), option_error);
}

TEST_CASE("topologies: ten thousand nodes", "[peer][graph]") {
  CHECK(ring(10'000).distance(worker_id(0), worker_id(5'000)) == 5'000);
  CHECK(ring_based(10'000).distance(worker_id(0), worker_id(2'500)) == 2'500);
  CHECK(grid(100, 100).distance(worker_id(0), worker_id(9'999)) == 198);
  CHECK(exponential(10'000).edges() == 140'000);
}

TEST_CASE("topologies: diameters", "[peer][graph]") {
  CHECK(diameter(ring(16)) == 8);
  CHECK(diameter(ring_based(16)) == 4);
  CHECK(diameter(double_ring(16)) == 3);
  CHECK(diameter(hierarchical({4, 4, 4, 4})) == 4);
  CHECK(diameter(star(16)) == 2);
}

TEST_CASE("topologies: a graph's name and size make it again", "[peer][graph]") {
  for (graph const& g :
       {ring(5), directed_ring(5), ring_based(9), double_ring(10), complete(4), grid(2, 8), star(4),
        exponential(6), hierarchical({4, 2, 1}), hierarchical_two({2, 3, 2})}) {
    INFO(g.name());
    graph const again = parse_graph(g.name(), g.size());
    CHECK(again.name() == g.name());
    CHECK(edges_of(again) == edges_of(g));
  }
}

TEST_CASE("topologies: a grid without numbers is as square as can be", "[peer][graph]") {
  CHECK(parse_graph("grid", 1).name() == "grid:1x1");
  CHECK(parse_graph("grid", 7).name() == "grid:1x7");
  CHECK(parse_graph("grid", 12).name() == "grid:3x4");
  CHECK(parse_graph("grid", 16).name() == "grid:4x4");
  CHECK(parse_graph("grid:8x2", 16).name() == "grid:8x2");
}

TEST_CASE("topologies: an unknown name is answered by all names", "[peer][graph]") {
  CHECK(graph_names() ==
        "ring, ring-based, double-ring, directed-ring, complete, star, exponential, grid, "
        "grid:ROWSxCOLUMNS, hierarchical:N,N,..., hierarchical-two:N,N,...");
  CHECK_THROWS_WITH(parse_graph("rng", 4),
                    "there is no graph \"rng\"; give one of " + graph_names());
  for (std::string const spec : {"", ":", "Ring", "ring ", " ring", "ring:4", "ring-", "star:",
                                 "hierarchical", "hierarchical-two", "hierarchical-three:2,2"}) {
    INFO(spec);
    CHECK_THROWS_WITH(parse_graph(spec, 4), Catch::StartsWith("there is no graph \"" + spec + '"'));
  }
}

TEST_CASE("topologies: a size that does not fit is rejected", "[peer][graph]") {
  CHECK_THROWS_WITH(
      parse_graph("grid:3x4", 13),
      "graph \"grid:3x4\": must have as many nodes as there are workers, 13, but has 12");
  CHECK_THROWS_WITH(
      parse_graph("hierarchical:4,4", 7),
      "graph \"hierarchical:4,4\": must have as many nodes as there are workers, 7, but has 8");
  CHECK_THROWS_WITH(parse_graph("double-ring", 5),
                    "graph double-ring: must have an even number of nodes, but has 5");
  // 65536 x 65536 is 0 in 32 bits, and so is the sum.
  CHECK_THROWS_WITH(parse_graph("grid:65536x65536", 0), Catch::EndsWith("0, but has 4294967296"));
  CHECK_THROWS_WITH(parse_graph("hierarchical:4294967295,1", 0),
                    Catch::EndsWith("0, but has 4294967296"));
  for (std::string const spec : {"ring", "grid", "complete", "star", "exponential", "grid:1x1"}) {
    INFO(spec);
    CHECK_THROWS_AS(parse_graph(spec, 0), option_error);
    CHECK_THROWS_AS(parse_graph(spec, far_too_many), option_error);
  }
  CHECK_THROWS_AS(parse_graph("grid:1x4294967295", far_too_many), option_error);
}

TEST_CASE("topologies: malformed numbers are named", "[peer][graph]") {
  CHECK_THROWS_WITH(parse_graph("grid:4", 4),
                    "graph \"grid:4\": the size of a grid must read ROWSxCOLUMNS");
  CHECK_THROWS_WITH(
      parse_graph("hierarchical:2,,2", 4),
      "graph \"hierarchical:2,,2\": \"\" must be a whole number between 1 and 4294967295");
  CHECK_THROWS_WITH(
      parse_graph("grid:2x4294967296", 4),
      Catch::Contains("\"4294967296\" must be a whole number between 1 and 4294967295"));
  for (std::string const spec : {"grid:",
                                 "grid:x",
                                 "grid:2x",
                                 "grid:x2",
                                 "grid:2X2",
                                 "grid:2x2x1",
                                 "grid:-2x-2",
                                 "grid:+2x2",
                                 "grid:0x4",
                                 "grid: 2x2",
                                 "grid:2x2 ",
                                 "grid:1e0x4",
                                 "grid:0x2x2",
                                 "hierarchical:",
                                 "hierarchical:,",
                                 "hierarchical:4,",
                                 "hierarchical:,4",
                                 "hierarchical:4,0",
                                 "hierarchical:-4,8",
                                 "hierarchical:2;2",
                                 "hierarchical-two:a",
                                 "hierarchical-two:99999999999999999999999"}) {
    INFO(spec);
    CHECK_THROWS_AS(parse_graph(spec, 4), option_error);
  }
}

TEST_CASE("topologies: what is quoted is short and printable", "[peer][graph]") {
  using namespace std::string_literals;
  CHECK_THROWS_WITH(parse_graph("a\0b\x1b[31m\xff\x7f\n"s, 4),
                    Catch::StartsWith("there is no graph \"a?b?[31m???\"; give one of ring,"));
  CHECK_THROWS_WITH(parse_graph(std::string(1'000'000, 'z'), 4),
                    Catch::StartsWith("there is no graph \"" + std::string(60, 'z') + "...\"; "));
  std::string long_list = "hierarchical:1";
  for (int i = 0; i < 1'000'000; ++i) long_list += ",1";
  CHECK_THROWS_WITH(parse_graph(long_list, 4), Catch::EndsWith("workers, 4, but has 1000001"));
}
