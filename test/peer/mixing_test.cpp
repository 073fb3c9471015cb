// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "rubato/peer/mixing.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "rubato/peer/topologies.hpp"
#include "seeds.hpp"

using namespace rubato;

namespace {

double largest_imbalance(Eigen::MatrixXd const& w) {
  return std::max((w.rowwise().sum().array() - 1).abs().maxCoeff(),
                  (w.colwise().sum().array() - 1).abs().maxCoeff());
}

// A random tree and more edges: connected and undirected.
graph random_undirected(random_stream& random, std::uint32_t n) {
  std::vector<std::vector<std::uint32_t>> out(n);
  double const density = random.uniform() * 0.5;
  for (std::uint32_t i = 1; i < n; ++i) {
    auto const parent = static_cast<std::uint32_t>(random.below(i));
    for (std::uint32_t j = 0; j < i; ++j) {
      if (j != parent && !random.chance(density)) continue;
      out[i].push_back(j);
      out[j].push_back(i);
    }
  }
  return graph::from_numbers(out);
}

Eigen::MatrixXd matrix(std::vector<std::vector<double>> const& rows) {
  Eigen::MatrixXd m(static_cast<Eigen::Index>(rows.size()),
                    rows.empty() ? 0 : static_cast<Eigen::Index>(rows[0].size()));
  for (Eigen::Index i = 0; i < m.rows(); ++i) {
    for (Eigen::Index j = 0; j < m.cols(); ++j) {
      m(i, j) = rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
    }
  }
  return m;
}

graph line() { return graph::from_numbers({{1}, {0, 2}, {1}}, "line"); }
// Node 0 hears of two others and is heard by one.
graph lopsided() { return graph::from_numbers({{1}, {0, 2}, {0}}, "lopsided"); }

}  // namespace

TEST_CASE("mixing: ring-based graphs have the eigenvalues of V2", "[peer][mixing]") {
  for (std::uint32_t n = 4; n <= 32; n += 2) {
    INFO(n);
    std::vector<double> expected;
    for (std::uint32_t k = 0; k < n; ++k) {
      double const angle = 2 * std::numbers::pi * k / n;
      expected.push_back((1 + 2 * std::cos(angle) + (k % 2 == 0 ? 1 : -1)) / 4);
    }
    std::sort(expected.begin(), expected.end());
    Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> const solver(
        mixing_matrix::uniform(ring_based(n)).dense());
    for (std::uint32_t k = 0; k < n; ++k) {
      CHECK(solver.eigenvalues()[k] == Approx(expected[k]).margin(1e-12));
    }
  }
}

TEST_CASE("mixing: spectral gaps of V2", "[peer][mixing]") {
  CHECK(mixing_matrix::uniform(ring_based(8)).spectral_gap() == Approx(0.5).epsilon(1e-12));
  double const second = (2 + std::sqrt(2.0)) / 4;  // for n = 16, where k = 2
  CHECK(mixing_matrix::uniform(ring_based(16)).spectral_gap() == Approx(1 - second).epsilon(1e-12));
  CHECK(mixing_matrix::uniform(ring_based(16)).spectral_gap() == Approx(0.1464).margin(5e-5));
  for (std::uint32_t const n : {1u, 2u, 3u, 10u, 64u}) {
    CHECK(mixing_matrix::uniform(complete(n)).spectral_gap() == Approx(1).epsilon(1e-12));
  }
}

TEST_CASE("mixing: spectral gaps of other graphs", "[peer][mixing]") {
  CHECK(mixing_matrix::uniform(ring(16)).spectral_gap() ==
        Approx(1 - (1 + 2 * std::cos(std::numbers::pi / 8)) / 3).epsilon(1e-12));
  // Eigenvalues (1 + e^(2 pi i k/n))/2, of norm |cos(pi k/n)|.
  CHECK(mixing_matrix::uniform(directed_ring(8)).spectral_gap() ==
        Approx(1 - std::cos(std::numbers::pi / 8)).epsilon(1e-9));
  // Weights 1/3 and 2/3, 1/3, 2/3: eigenvalues 1, 2/3, 0.
  CHECK(mixing_matrix::metropolis(line()).spectral_gap() == Approx(1.0 / 3).epsilon(1e-12));
  // A permutation mixes nothing: all eigenvalues have norm 1.
  Eigen::MatrixXd const rotation = matrix({{0, 1, 0}, {0, 0, 1}, {1, 0, 0}});
  CHECK(mixing_matrix::given(graph_of(rotation), rotation).spectral_gap() ==
        Approx(0).margin(1e-12));
  // Norms decide: the eigenvalues are 1 and -0.8.
  Eigen::MatrixXd const swap = matrix({{0.1, 0.9}, {0.9, 0.1}});
  CHECK(mixing_matrix::given(ring(2), swap).spectral_gap() == Approx(0.2).epsilon(1e-12));
}

TEST_CASE("mixing: uniform weights count every update the same", "[peer][mixing]") {
  mixing_matrix const w = mixing_matrix::uniform(exponential(5));
  CHECK(w.name() == "uniform");
  CHECK(w.topology().name() == "exponential");
  for (std::uint32_t j = 0; j < 5; ++j) {
    CHECK(w.self(worker_id(j)) == 0.25);
    CHECK(w.of(worker_id(j)).size() == 3);
    for (double const weight : w.of(worker_id(j))) CHECK(weight == 0.25);
  }
  CHECK(w.dense()(0, 1) == 0.25);  // 0 sends to 1, 2 and 4
  CHECK(w.dense()(0, 3) == 0);
  CHECK(w.dense()(3, 0) == 0.25);
}

TEST_CASE("mixing: a single node keeps what it has", "[peer][mixing]") {
  for (mixing_matrix const& w :
       {mixing_matrix::uniform(ring(1)), mixing_matrix::metropolis(ring(1)),
        mixing_matrix::given(ring(1), matrix({{1}})), mixing_matrix::automatic(ring(1))}) {
    CHECK(w.self(worker_id(0)) == 1);
    CHECK(w.of(worker_id(0)).empty());
    CHECK(w.dense() == matrix({{1}}));
    CHECK(w.spectral_gap() == 1);
  }
}

TEST_CASE("mixing: uniform weights are rejected where they are not doubly stochastic",
          "[peer][mixing]") {
  CHECK_THROWS_WITH(mixing_matrix::uniform(star(4)),
                    "uniform weights on graph star: must be doubly stochastic, but row 0 sums to "
                    "1.75; take Metropolis weights");
  CHECK_THROWS_WITH(mixing_matrix::uniform(lopsided()),
                    Catch::StartsWith("uniform weights on graph lopsided: must be doubly "
                                      "stochastic, but row 0 sums to 0.83333") &&
                        Catch::EndsWith("; give weights of your own, or mixing_matrix::push to protocols that "
                                        "need no others, or take Metropolis weights on an undirected graph"));
}

TEST_CASE("mixing: uniform weights are doubly stochastic on all regular graphs", "[peer][mixing]") {
  for (std::uint32_t n = 1; n <= 12; ++n) {
    INFO(n);
    for (graph const& g : {ring(n), directed_ring(n), ring_based(n), double_ring(2 * n),
                           complete(n), exponential(n)}) {
      INFO(g.name());
      CHECK(largest_imbalance(mixing_matrix::uniform(g).dense()) < 1e-14);
    }
  }
}

TEST_CASE("mixing: Metropolis weights by hand", "[peer][mixing]") {
  mixing_matrix const w = mixing_matrix::metropolis(star(4));
  CHECK(w.name() == "metropolis");
  Eigen::MatrixXd const expected = matrix(
      {{0.25, 0.25, 0.25, 0.25}, {0.25, 0.75, 0, 0}, {0.25, 0, 0.75, 0}, {0.25, 0, 0, 0.75}});
  CHECK(w.dense() == expected);
  Eigen::MatrixXd const on_line = matrix({{2, 1, 0}, {1, 1, 1}, {0, 1, 2}}) / 3;
  CHECK((mixing_matrix::metropolis(line()).dense() - on_line).cwiseAbs().maxCoeff() < 1e-15);
}

TEST_CASE("mixing: Metropolis weights are doubly stochastic on all undirected graphs",
          "[peer][mixing]") {
  for (graph const& g : {star(2), star(9), grid(1, 7), grid(3, 4), grid(5, 5), ring(5),
                         hierarchical({3, 1, 4}), hierarchical_two({3, 1, 4})}) {
    INFO(g.name());
    Eigen::MatrixXd const w = mixing_matrix::metropolis(g).dense();
    CHECK(largest_imbalance(w) < 1e-14);
    CHECK(w == w.transpose());
  }
  for (std::uint64_t s = 0; s < test::seed_count(200); ++s) {
    std::uint64_t const seed = test::first_seed() + s;
    INFO(test::repeat_by(seed));
    random_stream random(seed);
    graph const g = random_undirected(random, static_cast<std::uint32_t>(1 + random.below(30)));
    mixing_matrix const w = mixing_matrix::metropolis(g);
    REQUIRE(largest_imbalance(w.dense()) < 1e-13);
    for (std::uint32_t j = 0; j < g.size(); ++j) {
      auto const in = g.in(worker_id(j));
      REQUIRE(w.self(worker_id(j)) > 0);
      REQUIRE(w.of(worker_id(j)).size() == in.size());
      for (std::size_t k = 0; k < in.size(); ++k) {
        auto const degree = std::max(in.size(), g.in(in[k]).size());
        REQUIRE(w.of(worker_id(j))[k] == 1 / (1 + static_cast<double>(degree)));
      }
    }
    double const gap = w.spectral_gap();
    REQUIRE((gap > 0 && gap <= 1 + 1e-12));
  }
}

TEST_CASE("mixing: Metropolis weights need an undirected graph", "[peer][mixing]") {
  CHECK_THROWS_WITH(mixing_matrix::metropolis(directed_ring(3)),
                    "Metropolis weights on graph directed-ring: must be undirected, but node 2 has "
                    "an edge to node 0 and none back");
  CHECK_NOTHROW(mixing_matrix::metropolis(directed_ring(2)));
}

TEST_CASE("mixing: automatic weights are uniform where they can be", "[peer][mixing]") {
  CHECK(mixing_matrix::automatic(ring_based(8)).name() == "uniform");
  CHECK(mixing_matrix::automatic(exponential(7)).name() == "uniform");
  CHECK(mixing_matrix::automatic(star(3)).name() == "metropolis");
  CHECK(mixing_matrix::automatic(star(3)).dense() == mixing_matrix::metropolis(star(3)).dense());
  CHECK_THROWS_WITH(mixing_matrix::automatic(lopsided()),
                    Catch::Contains("but row 0 sums to 0.8333"));
}

TEST_CASE("mixing: weights of one's own", "[peer][mixing]") {
  // Column j belongs to the receiver j.
  Eigen::MatrixXd const weights = matrix({{0.5, 0.2, 0.3}, {0.1, 0.8, 0.1}, {0.4, 0, 0.6}});
  graph const g = graph_of(weights);
  CHECK(g.name() == "custom");
  CHECK(g.edges() == 5);
  CHECK_FALSE(g.has_edge(worker_id(2), worker_id(1)));
  CHECK(g.has_edge(worker_id(1), worker_id(2)));
  mixing_matrix const w = mixing_matrix::given(g, weights);
  CHECK(w.name() == "given");
  CHECK(w.self(worker_id(0)) == 0.5);
  CHECK(w.self(worker_id(2)) == 0.6);
  CHECK(std::vector<double>(w.of(worker_id(0)).begin(), w.of(worker_id(0)).end()) ==
        std::vector<double>{0.1, 0.4});
  CHECK(std::vector<double>(w.of(worker_id(1)).begin(), w.of(worker_id(1)).end()) ==
        std::vector<double>{0.2});
  CHECK(std::vector<double>(w.of(worker_id(2)).begin(), w.of(worker_id(2)).end()) ==
        std::vector<double>{0.3, 0.1});
  CHECK(w.dense() == weights);
}

TEST_CASE("mixing: bad weights are named", "[peer][mixing]") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double inf = std::numeric_limits<double>::infinity();
  auto const error_of = [](std::vector<std::vector<double>> const& rows) {
    try {
      static_cast<void>(mixing_matrix::given(line(), matrix(rows)));
    } catch (option_error const& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  std::string const edge = "must be finite and greater than 0, as that of an edge, but is ";
  CHECK(error_of({{0.5, 0.5, 0}, {0.5, 0, 0.5}, {0, 0.5, 0.5}}) == "");
  CHECK(error_of({{0.5, 0.5}, {0.5, 0.5}}) ==
        "weights must have 3 rows and columns, but have 2 and 2");
  CHECK(error_of({}) == "weights must have 3 rows and columns, but have 0 and 0");
  CHECK(error_of({{1, 0, 0}, {0, 0.5, 0.5}, {0, 0.5, 0.5}}) == "weight (1, 0) " + edge + "0");
  CHECK(error_of({{1.5, -0.5, 0}, {0.5, 0, 0.5}, {0, 0.5, 0.5}}) ==
        "weight (0, 1) " + edge + "-0.5");
  CHECK(error_of({{0.5, 0.5, 0}, {0.5, 0, inf}, {0, 0.5, 0.5}}) == "weight (1, 2) " + edge + "inf");
  CHECK(error_of({{0.5, 0.5, 0}, {nan, 0, 0.5}, {0, 0.5, 0.5}}) == "weight (1, 0) " + edge + "nan");
  CHECK(error_of({{0.5, 0.25, 0.25}, {0.5, 0, 0.5}, {0, 0.5, 0.5}}) ==
        "weight (0, 2) must be 0, because the graph has no such edge, but is 0.25");
  CHECK(error_of({{0.5, 0.5, nan}, {0.5, 0, 0.5}, {0, 0.5, 0.5}}) ==
        "weight (0, 2) must be 0, because the graph has no such edge, but is nan");
  CHECK(error_of({{0.5, 0.5, 0}, {0.5, -1, 0.5}, {0, 0.5, 0.5}}) ==
        "weight (1, 1) must be finite and at least 0, but is -1");
  CHECK(error_of({{inf, 0.5, 0}, {0.5, 0, 0.5}, {0, 0.5, 0.5}}) ==
        "weight (0, 0) must be finite and at least 0, but is inf");
  CHECK(error_of({{0.5, 0.5, 0}, {0.5, 0.25, 0.5}, {0, 0.5, 0.5}}) ==
        "weights must be doubly stochastic, but row 1 sums to 1.25");
  CHECK(error_of({{0.5, 0.5, 0}, {0.25, 0.25, 0.5}, {0, 0.5, 0.5}}) ==
        "weights must be doubly stochastic, but column 0 sums to 0.75");
}

TEST_CASE("mixing: the sums may be off by no more than 1e-9", "[peer][mixing]") {
  auto const pair = [](double by) { return matrix({{0.5 + by, 0.5}, {0.5, 0.5}}); };
  CHECK_NOTHROW(mixing_matrix::given(ring(2), pair(9e-10)));
  CHECK_NOTHROW(mixing_matrix::given(ring(2), pair(-9e-10)));
  CHECK_THROWS_AS(mixing_matrix::given(ring(2), pair(1.1e-9)), option_error);
  CHECK_THROWS_AS(mixing_matrix::given(ring(2), pair(-1.1e-9)), option_error);
}

TEST_CASE("mixing: a weight matrix that is no graph is rejected", "[peer][mixing]") {
  CHECK_THROWS_WITH(graph_of(Eigen::MatrixXd::Zero(2, 3)),
                    "weights must have 2 rows and columns, but have 2 and 3");
  CHECK_THROWS_WITH(graph_of(Eigen::MatrixXd(0, 0)),
                    Catch::Contains("must have between 1 and 4294967295 nodes, but has 0"));
  CHECK_THROWS_WITH(graph_of(Eigen::MatrixXd::Identity(2, 2)),
                    Catch::Contains("node 1 cannot be reached from node 0"));
  CHECK(graph_of(matrix({{1}})).size() == 1);
}

TEST_CASE("mixing: a node that does not exist is named", "[peer][mixing]") {
  mixing_matrix const w = mixing_matrix::uniform(ring(4));
  CHECK_THROWS_WITH(w.self(worker_id(4)), "a graph with nodes 0 to 3 has no node 4");
  CHECK_THROWS_WITH(w.of(worker_id(9)), "a graph with nodes 0 to 3 has no node 9");
}

TEST_CASE("mixing: ten thousand nodes", "[peer][mixing]") {
  mixing_matrix const w = mixing_matrix::automatic(grid(100, 100));
  CHECK(w.name() == "metropolis");
  CHECK(w.self(worker_id(0)) == Approx(0.5));  // 1 - 2/4
  CHECK(w.of(worker_id(5'050)).size() == 4);
}
