// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Graphs that change: who sends to whom, as both ends see it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <rubato/core/error.hpp>
#include <rubato/peer/exchange.hpp>
#include <rubato/peer/mixing.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/testing/check_exchange.hpp>
#include <set>
#include <type_traits>
#include <vector>

using namespace rubato;
using Catch::Matchers::Contains;

namespace {

// What is not meant as a schedule chooses no function that takes one.
static_assert(!std::is_convertible_v<int, exchange_rules> && !std::is_convertible_v<char const*, exchange_rules>);

/// How many iterations it takes until all have heard of node 0.
std::int64_t spread_of_news(exchange_rules const& s, graph const& g) {
  std::set<worker_id> know{worker_id{0}};
  std::int64_t k = 0;
  for (; know.size() < g.size() && k < 1000; ++k)
    for (worker_id const i : std::vector(know.begin(), know.end()))
      for (worker_id const j : s.out(g, i, iteration_index{k})) know.insert(j);
  return k;
}

graph irregular() { return graph::from_numbers({{1, 2, 3}, {2}, {0}, {0, 1}}); }

}  // namespace

TEST_CASE("exchange: both ends of every schedule agree on who sends", "[peer]") {
  for (std::uint32_t const n : {1U, 2U, 3U, 5U, 8U, 13U})
    for (graph const& g : {ring(n), complete(n), directed_ring(n), exponential(n)}) {
      CHECK(testing::check_exchange(one_peer_exponential{}, g).empty());
      CHECK(testing::check_exchange(every_neighbor{}, g).empty());
      CHECK(testing::check_exchange(random_partner{.seed = n, .probability = 0.7}, g).empty());
      for (std::uint32_t const size : {2U, 3U, 4U})
        CHECK(testing::check_exchange(random_groups{.size = size, .seed = n}, g).empty());
    }
  CHECK(testing::check_exchange(every_neighbor{}, irregular()).empty());
  CHECK(testing::check_exchange(random_partner{}, irregular()).empty());
}

TEST_CASE("exchange: what the check finds", "[peer]") {
  struct deaf : one_peer_exponential {
    [[nodiscard]] static std::vector<worker_id> in(graph const&, worker_id, iteration_index) { return {}; }
  };
  struct to_itself : every_neighbor {
    [[nodiscard]] static std::vector<worker_id> out(graph const&, worker_id i, iteration_index) { return {i}; }
  };
  struct unordered : every_neighbor {
    [[nodiscard]] static std::vector<worker_id> out(graph const&, worker_id, iteration_index) {
      return {worker_id{2}, worker_id{1}};
    }
  };
  struct elsewhere : every_neighbor {
    [[nodiscard]] static std::vector<worker_id> out(graph const&, worker_id, iteration_index) {
      return {worker_id{9}};
    }
  };
  struct too_few_partners : every_neighbor {
    [[nodiscard]] static std::vector<worker_id> partners(graph const& g, worker_id i) {
      return {every_neighbor().out(g, i, {}).front()};
    }
  };
  struct partners_twice : every_neighbor {
    [[nodiscard]] static std::vector<worker_id> partners(graph const& g, worker_id i) {
      auto those = every_neighbor().out(g, i, {});
      those.insert(those.begin(), those.front());
      return those;
    }
  };
  struct twice : every_neighbor {
    [[nodiscard]] static std::vector<worker_id> in(graph const& g, worker_id i, iteration_index k) {
      auto those = every_neighbor{}.in(g, i, k);
      those.insert(those.begin(), those.front());
      return those;
    }
  };
  CHECK_THAT(testing::check_exchange(deaf{}, ring(3)).at(0),
             Contains("peer 2 sends to 0") && Contains("is not in its"));
  CHECK_THAT(testing::check_exchange(to_itself{}, ring(3)).at(0), Contains("sends to itself"));
  CHECK_THAT(testing::check_exchange(unordered{}, ring(3)).at(0), Contains("ascending"));
  CHECK_THAT(testing::check_exchange(elsewhere{}, ring(3)).at(0), Contains("9") && Contains("no such peer"));
  CHECK_THAT(testing::check_exchange(too_few_partners{}, ring(4)).at(0), Contains("not its partners"));
  CHECK_THAT(testing::check_exchange(partners_twice{}, ring(3)).at(0),
             Contains("partners of peer 0 are not named once"));
  auto const named_twice = testing::check_exchange(twice{}, ring(3));
  REQUIRE(named_twice.size() == 1);
  CHECK_THAT(named_twice[0], Contains("senders to 0 are not named once"));
}

TEST_CASE("exchange: partners are whom a peer meets in any iteration, where a schedule knows them", "[peer]") {
  auto const met = [](exchange_rules const& s, graph const& g, worker_id i) {
    std::set<worker_id> all;
    for (std::int64_t k = 0; k < 200; ++k) {
      for (worker_id const j : s.out(g, i, iteration_index{k})) all.insert(j);
      for (worker_id const j : s.in(g, i, iteration_index{k})) all.insert(j);
    }
    return std::vector(all.begin(), all.end());
  };
  for (graph const& g : {ring(1), ring(2), complete(6), directed_ring(5), exponential(13), irregular()})
    for (exchange_rules const& s : {exchange_rules(one_peer_exponential{}), exchange_rules(every_neighbor{}),
                                    exchange_rules(random_partner{.seed = 3})})
      for (std::uint32_t i = 0; i < g.size(); ++i) CHECK(s.partners(g, worker_id{i}) == met(s, g, worker_id{i}));
  CHECK(exchange_rules(random_groups{}).partners(ring(5), worker_id{0}) == std::nullopt);
}

TEST_CASE("exchange: on the one-peer exponential graph news reach all in log2 n iterations, from one each", "[peer]") {
  for (std::uint32_t const n : {2U, 3U, 4U, 6U, 8U, 16U, 33U}) {
    std::int64_t logarithm = 0;
    while ((1U << logarithm) < n) ++logarithm;
    CHECK(spread_of_news(one_peer_exponential{}, ring(n)) == logarithm);
    for (std::int64_t k = 0; k < 10; ++k)
      CHECK(one_peer_exponential{}.in(ring(n), worker_id{0}, iteration_index{k}).size() == 1);
  }
}

TEST_CASE("exchange: groups cut all peers into parts of the size asked for, another way each time", "[peer]") {
  for (std::uint32_t const n : {2U, 5U, 8U, 9U, 16U})
    for (std::uint32_t const size : {2U, 3U, 5U}) {
      random_groups const s{.size = size, .seed = 7};
      std::set<std::vector<worker_id>> seen;
      for (std::int64_t k = 0; k < 50; ++k) {
        std::map<worker_id, std::size_t> groups_of;
        std::set<std::vector<worker_id>> groups;
        for (std::uint32_t i = 0; i < n; ++i) groups.insert(s.group(ring(n), worker_id{i}, iteration_index{k}));
        std::size_t least = n, greatest = 0;
        for (auto const& one : groups) {
          for (worker_id const w : one) ++groups_of[w];
          least = std::min(least, one.size());
          greatest = std::max(greatest, one.size());
        }
        CHECK(groups_of.size() == n);
        for (auto const& [who, in] : groups_of) CHECK(in == 1);
        CHECK(greatest <= size);
        CHECK(greatest - least <= 1);
        CHECK(groups.size() == (n + size - 1) / size);
        seen.insert(*groups.begin());
      }
      if (n > size) CHECK(seen.size() > 3);
      CHECK(spread_of_news(s, ring(n)) < 40);
    }
}

TEST_CASE("exchange: partners are drawn evenly among neighbors, as often as asked for", "[peer]") {
  std::map<worker_id, int> drawn;
  graph const g = complete(5);
  for (std::int64_t k = 0; k < 4000; ++k)
    for (worker_id const w : random_partner{.seed = 3, .probability = 0.5}.out(g, worker_id{1}, iteration_index{k}))
      ++drawn[w];
  CHECK(drawn.size() == 4);
  for (auto const& [who, times] : drawn) CHECK(times == Approx(500).margin(100));
}

TEST_CASE("exchange: options that cannot be meant", "[peer]") {
  for (double const p : {0.0, -0.5, 1.5}) CHECK_THROWS_AS(random_partner{.probability = p}.check(), option_error);
  CHECK_THROWS_AS(exchange_rules(random_groups{.size = 1}).check(), option_error);
  CHECK_NOTHROW(exchange_rules(one_peer_exponential{}).check());
}

TEST_CASE("mixing: push weights are the sender's, on any graph", "[peer]") {
  auto const w = mixing_matrix::push(irregular());
  CHECK(w.name() == "push");
  CHECK_FALSE(w.is_doubly_stochastic());
  CHECK(w.self(worker_id{0}) == 0.25);
  CHECK(w.of(worker_id{0})[0] == 0.5);                    // of 2, which has one to send to
  CHECK(w.of(worker_id{0})[1] == Approx(1.0 / 3));        // of 3, which has two
  CHECK(mixing_matrix::push(exponential(6)).is_doubly_stochastic());
  CHECK(mixing_matrix::uniform(ring(3)).is_doubly_stochastic());
}
