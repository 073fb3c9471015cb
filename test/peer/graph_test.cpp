// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "rubato/peer/graph.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "seeds.hpp"

using namespace rubato;

namespace {

using lists = std::vector<std::vector<std::uint32_t>>;

graph of(lists const& out) { return graph::from_numbers(out); }

std::vector<std::uint32_t> numbers(std::span<worker_id const> nodes) {
  std::vector<std::uint32_t> result;
  for (worker_id const node : nodes) result.push_back(node.value());
  return result;
}

using list = std::vector<std::uint32_t>;

// A cycle through all nodes in random order, which makes it strongly connected, and more edges.
lists random_lists(random_stream& random, std::uint32_t n, double density) {
  list order(n);
  for (std::uint32_t i = 0; i < n; ++i) order[i] = i;
  random.shuffle(std::span(order));
  lists out(n);
  for (std::uint32_t i = 0; i < n; ++i) out[order[i]].push_back(order[(i + 1) % n]);
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::uint32_t j = 0; j < n; ++j) {
      if (random.chance(density) && std::count(out[i].begin(), out[i].end(), j) == 0) {
        out[i].push_back(j);  // j == i too
      }
    }
    random.shuffle(std::span(out[i]));
  }
  return out;
}

lists floyd_warshall(lists const& out) {
  std::size_t const n = out.size();
  constexpr std::uint32_t far = 1'000'000;
  lists d(n, list(n, far));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::uint32_t const j : out[i]) d[i][j] = 1;
    d[i][i] = 0;
  }
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) d[i][j] = std::min(d[i][j], d[i][k] + d[k][j]);
    }
  }
  return d;
}

bool bipartite_by_trying(lists const& out) {
  for (std::uint32_t sides = 0; sides < 1u << out.size(); ++sides) {
    bool fits = true;
    for (std::uint32_t i = 0; i < out.size(); ++i) {
      for (std::uint32_t const j : out[i]) {
        fits = fits && (i == j || ((sides >> i ^ sides >> j) & 1u) == 1);
      }
    }
    if (fits) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("graph: neighbors are sorted and without the node itself", "[peer][graph]") {
  graph const g = of({{3, 1, 0}, {2}, {2, 0}, {1, 0, 2}});
  CHECK(g.size() == 4);
  CHECK(g.edges() == 7);
  CHECK(g.name() == "custom");
  CHECK(numbers(g.out(worker_id(0))) == list{1, 3});
  CHECK(numbers(g.out(worker_id(1))) == list{2});
  CHECK(numbers(g.out(worker_id(2))) == list{0});
  CHECK(numbers(g.out(worker_id(3))) == list{0, 1, 2});
  CHECK(numbers(g.in(worker_id(0))) == list{2, 3});
  CHECK(numbers(g.in(worker_id(1))) == list{0, 3});
  CHECK(numbers(g.in(worker_id(2))) == list{1, 3});
  CHECK(numbers(g.in(worker_id(3))) == list{0});
  CHECK(g.has_edge(worker_id(0), worker_id(3)));
  CHECK(g.has_edge(worker_id(1), worker_id(2)));
  CHECK_FALSE(g.has_edge(worker_id(2), worker_id(1)));
  CHECK_FALSE(g.has_edge(worker_id(2), worker_id(2)));
}

TEST_CASE("graph: ids and bare numbers make the same graph", "[peer][graph]") {
  graph const g({{worker_id(1)}, {worker_id(1), worker_id(0)}}, "pair");
  CHECK(g.name() == "pair");
  CHECK(g.edges() == 2);
  CHECK(numbers(g.out(worker_id(1))) == list{0});
  CHECK(graph::from_numbers({{1}, {0}}, "pair").name() == "pair");
}

TEST_CASE("graph: one node is a graph", "[peer][graph]") {
  for (lists const& out : {lists{{}}, lists{{0}}}) {
    graph const g = of(out);
    CHECK(g.size() == 1);
    CHECK(g.edges() == 0);
    CHECK(g.in(worker_id(0)).empty());
    CHECK(g.out(worker_id(0)).empty());
    CHECK(g.undirected());
    CHECK(g.regular());
    CHECK(g.distance(worker_id(0), worker_id(0)) == 0);
    CHECK(g.two_coloring() == std::vector<bool>{false});
  }
}

TEST_CASE("graph: what is undirected and what is regular", "[peer][graph]") {
  graph const pair = of({{1}, {0}});
  CHECK((pair.undirected() && pair.regular()));
  graph const cycle = of({{1}, {2}, {0}});
  CHECK((!cycle.undirected() && cycle.regular()));
  graph const line = of({{1}, {0, 2}, {1}});
  CHECK((line.undirected() && !line.regular()));
  CHECK_FALSE(of({{1, 2}, {0, 2}, {0, 3}, {0, 2}}).regular());  // only the out-degrees agree
  CHECK_FALSE(of({{1, 2, 3}, {0}, {0, 1, 3}, {2}}).regular());  // only the in-degrees agree
}

TEST_CASE("graph: distances follow the edges' directions", "[peer][graph]") {
  graph const g = of({{1}, {2}, {3, 0}, {0}});
  CHECK(g.distances_from(worker_id(0)) == list{0, 1, 2, 3});
  CHECK(g.distances_from(worker_id(1)) == list{2, 0, 1, 2});
  CHECK(g.distances_from(worker_id(3)) == list{1, 2, 3, 0});
  CHECK(g.distance(worker_id(0), worker_id(3)) == 3);
  CHECK(g.distance(worker_id(3), worker_id(0)) == 1);
}

TEST_CASE("graph: the two sides of a bipartite graph", "[peer][graph]") {
  CHECK(of({{1}, {0, 2}, {1}}).two_coloring() == std::vector<bool>{false, true, false});
  CHECK(of({{1}, {2}, {3}, {0}}).two_coloring() == std::vector<bool>{false, true, false, true});
  CHECK(of({{1}, {2}, {0}}).two_coloring() == std::nullopt);
}

TEST_CASE("graph: a copy shares the edges and outlives the original", "[peer][graph]") {
  std::optional<graph> original = of({{1}, {2}, {0}});
  graph const copy = *original;
  auto const neighbors = original->in(worker_id(0));
  CHECK(copy.in(worker_id(0)).data() == neighbors.data());
  original.reset();
  CHECK(numbers(neighbors) == list{2});
  static_assert(std::is_nothrow_move_constructible_v<graph>);
  static_assert(!std::is_convertible_v<std::vector<std::vector<worker_id>>, graph>);
}

TEST_CASE("graph: bad lists are rejected by name", "[peer][graph]") {
  CHECK_THROWS_AS(of({}), option_error);
  CHECK_THROWS_WITH(graph({}, "mine"),
                    "graph mine: must have between 1 and 4294967295 nodes, but has 0");
  CHECK_THROWS_WITH(of({{1}, {0, 7}, {0}}),
                    "graph custom: node 1 has an edge to node 7, but nodes go from 0 to 2");
  CHECK_THROWS_WITH(
      of({{1}, {std::numeric_limits<std::uint32_t>::max()}}),
      "graph custom: node 1 has an edge to node 4294967295, but nodes go from 0 to 1");
  CHECK_THROWS_WITH(
      of({{1}, {2}, {1, 0, 1}}),
      "graph custom: the edge from node 2 to node 1 must be listed once, but is twice");
  CHECK_THROWS_WITH(
      of({{0, 1, 0}, {0}}),
      "graph custom: the edge from node 0 to node 0 must be listed once, but is twice");
}

TEST_CASE("graph: a graph in parts is rejected, and the lost node is named", "[peer][graph]") {
  CHECK_THROWS_WITH(of({{1}, {0}, {0}}),
                    "graph custom: must be strongly connected, but node 2 cannot be reached from "
                    "node 0");
  CHECK_THROWS_WITH(of({{1, 2}, {0}, {}}),
                    "graph custom: must be strongly connected, but node 0 cannot be reached from "
                    "node 2");
  CHECK_THROWS_AS(of({{}, {}}), option_error);
}

TEST_CASE("graph: a node that does not exist is named", "[peer][graph]") {
  graph const g = of({{1}, {2}, {0}});
  std::string const sentence = "a graph with nodes 0 to 2 has no node 3";
  worker_id const none(3);
  CHECK_THROWS_WITH(g.in(none), sentence);
  CHECK_THROWS_WITH(g.out(none), sentence);
  CHECK_THROWS_WITH(g.has_edge(worker_id(0), none), sentence);
  CHECK_THROWS_WITH(g.has_edge(none, worker_id(0)), sentence);
  CHECK_THROWS_WITH(g.distances_from(none), sentence);
  CHECK_THROWS_WITH(g.distance(worker_id(0), none), sentence);
  CHECK_THROWS_WITH(g.distance(none, worker_id(0)), sentence);
  CHECK_THROWS_AS(g.in(worker_id(std::numeric_limits<std::uint32_t>::max())), option_error);
}

TEST_CASE("graph: distances agree with Floyd and Warshall's", "[peer][graph]") {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    random_stream random(seed);
    auto const n = static_cast<std::uint32_t>(1 + random.below(25));
    lists const out = random_lists(random, n, random.uniform() * 0.3);
    graph const g = of(out);
    lists const expected = floyd_warshall(out);
    for (std::uint32_t from = 0; from < n; ++from) {
      REQUIRE(g.distances_from(worker_id(from)) == expected[from]);
    }
  }
}

TEST_CASE("graph: in, out, has_edge and the sides agree with the lists", "[peer][graph]") {
  int bipartite = 0;
  for (std::uint64_t s = 0; s < test::seed_count(200); ++s) {
    std::uint64_t const seed = test::first_seed() + s;
    INFO(test::repeat_by(seed));
    random_stream random(seed);
    auto const n = static_cast<std::uint32_t>(1 + random.below(8));
    lists const out = random_lists(random, n, random.uniform() * 0.4);
    graph const g = of(out);
    for (std::uint32_t i = 0; i < n; ++i) {
      for (std::uint32_t j = 0; j < n; ++j) {
        bool const edge = i != j && std::count(out[i].begin(), out[i].end(), j) == 1;
        auto const to = g.out(worker_id(i));
        auto const from = g.in(worker_id(j));
        REQUIRE(g.has_edge(worker_id(i), worker_id(j)) == edge);
        REQUIRE(std::count(to.begin(), to.end(), worker_id(j)) == (edge ? 1 : 0));
        REQUIRE(std::count(from.begin(), from.end(), worker_id(i)) == (edge ? 1 : 0));
      }
      REQUIRE(std::is_sorted(g.in(worker_id(i)).begin(), g.in(worker_id(i)).end()));
    }
    auto const sides = g.two_coloring();
    REQUIRE(sides.has_value() == bipartite_by_trying(out));
    if (!sides) continue;
    ++bipartite;
    for (std::uint32_t i = 0; i < n; ++i) {
      for (worker_id const j : g.out(worker_id(i))) REQUIRE((*sides)[i] != (*sides)[j.index()]);
    }
  }
  if (test::seed_count(200) >= 200) CHECK(bipartite > 10);
}
