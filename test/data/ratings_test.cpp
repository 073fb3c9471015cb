// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/ratings.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>

#include "../seeds.hpp"

namespace rb = rubato;
namespace rd = rubato::data;
using Catch::Contains;

TEST_CASE("ratings: each is found by its user and by its item, in ascending order, given in any", "[data]") {
  for (std::uint64_t i = 0; i < rb::test::seed_count(100); ++i) {
    std::uint64_t const seed = rb::test::first_seed() + i;
    INFO(rb::test::repeat_by(seed));
    rb::random_stream random(seed);
    std::size_t const users = 1 + random.below(9), items = 1 + random.below(9);
    std::map<std::pair<std::uint32_t, std::uint32_t>, float> expected;
    for (std::uint64_t n = random.below(40); n > 0; --n) {
      auto const user = static_cast<std::uint32_t>(random.below(users));
      auto const item = static_cast<std::uint32_t>(random.below(items));
      expected[{user, item}] = static_cast<float>(random.uniform());
    }
    std::vector<rd::rating> given;
    for (auto const& [at, value] : expected) given.push_back({at.first, at.second, value});
    random.shuffle(std::span(given));
    rd::ratings const all(users, items, given);
    REQUIRE(all.users() == users);
    REQUIRE(all.items() == items);
    REQUIRE(all.size() == expected.size());
    std::vector<rd::rating> by_user, by_item, ordered;
    for (std::uint32_t u = 0; u < users; ++u)
      for (auto const& e : all.of_user(u)) by_user.push_back({u, e.other, e.value});
    for (auto const& [at, value] : expected) ordered.push_back({at.first, at.second, value});
    CHECK(by_user == ordered);
    std::map<std::pair<std::uint32_t, std::uint32_t>, float> transposed;
    for (std::uint32_t item = 0; item < items; ++item) {
      std::int64_t before = -1;
      for (auto const& e : all.of_item(item)) {
        CHECK(std::exchange(before, e.other) < e.other);
        transposed[{e.other, item}] = e.value;
      }
    }
    CHECK(transposed == expected);
  }
}

TEST_CASE("ratings: those of nobody, of nothing, that are no number, or there twice are refused", "[data]") {
  auto const made = [](rd::rating r) { return rd::ratings(2, 3, {{1, 2, 5.0F}, r}); };
  CHECK_THROWS_WITH(made({2, 0, 1.0F}), Contains("item 0 by user 2: expected a user below 2"));
  CHECK_THROWS_WITH(made({0, 3, 1.0F}), Contains("item 3 by user 0: expected an item below 3"));
  CHECK_THROWS_WITH(made({0, 0, std::nanf("")}), Contains("item 0 by user 0 is nan, expected a finite number"));
  CHECK_THROWS_WITH(made({1, 2, 4.0F}), Contains("item 2 by user 1 is there twice"));
  CHECK_THROWS_AS(made({1, 2, 4.0F}), rb::data_error);
  CHECK(rd::ratings(0, 0, {}).size() == 0);
}

TEST_CASE("ratings: split holds out a share at random, of the same users and items", "[data]") {
  auto const all = rd::make_synthetic_ratings({.users = 40, .items = 30, .per_user = 10});
  auto const [train, test] = all.split(0.3, 7);
  CHECK(test.size() == 120);
  CHECK(train.size() == 280);
  std::size_t without = 0, order_kept = 0;
  for (std::size_t u = 0; u < 40; ++u) {
    std::map<std::uint32_t, float> whole, parts;
    for (auto const& e : all.of_user(u)) whole[e.other] = e.value;
    for (auto const* const part : {&train, &test})
      for (auto const& e : part->of_user(u)) CHECK(parts.insert({e.other, e.value}).second);
    CHECK(parts == whole);
    without += test.of_user(u).empty() ? 1 : 0;
    order_kept += test.of_user(u).size() == 3 ? 1 : 0;
  }
  CHECK((without < 5 && order_kept < 25));  // of ratings, not of users, nor the same of each
  auto const held = [&](std::uint64_t seed) {
    std::vector<std::uint32_t> items;
    auto const parts = all.split(0.3, seed);
    for (std::size_t u = 0; u < 40; ++u)
      for (auto const& e : parts.test.of_user(u)) items.push_back(e.other);
    return items;
  };
  CHECK(held(7) == held(7));
  CHECK(held(7) != held(8));
  for (double const share : {0.0, 1.0}) {
    auto const parts = all.split(share, 1);
    CHECK(parts.test.size() == (share == 0 ? 0 : 400));
    CHECK(parts.test.users() == 40);
    CHECK(parts.train.items() == 30);
  }
  CHECK_THROWS_WITH(all.split(1.5, 1), Contains("split: a test share of 1.5") && Contains("expected 0 to 1"));
  CHECK_THROWS_AS(all.split(std::nan(""), 1), rb::option_error);
}

TEST_CASE("synthetic ratings: as many as asked for, the same for the same seed, of unit variance", "[data]") {
  rd::ratings_options o{.users = 300, .items = 80, .factors = 3, .per_user = 40};
  auto const all = rd::make_synthetic_ratings(o);
  auto const again = rd::make_synthetic_ratings(o);
  o.seed = 2;
  auto const other = rd::make_synthetic_ratings(o);
  double squares = 0;
  bool same = true, differs = false;
  for (std::size_t u = 0; u < 300; ++u) {
    REQUIRE(all.of_user(u).size() == 40);
    for (std::size_t n = 0; n < 40; ++n) {
      auto const e = all.of_user(u)[n];
      squares += static_cast<double>(e.value) * static_cast<double>(e.value);
      same = same && e.other == again.of_user(u)[n].other && e.value == again.of_user(u)[n].value;
      differs = differs || e.other != other.of_user(u)[n].other;
    }
  }
  CHECK(same);
  CHECK(differs);
  CHECK(squares / static_cast<double>(all.size()) == Approx(1.01).epsilon(0.25));
  CHECK_THROWS_WITH(rd::make_synthetic_ratings({.items = 3, .per_user = 4}),
                    Contains("per_user must not be above items"));
  CHECK_THROWS_WITH(rd::make_synthetic_ratings({.users = 0}), Contains("users must be"));
  CHECK_THROWS_WITH(rd::make_synthetic_ratings({.factors = 0}), Contains("factors must be"));
  CHECK_THROWS_WITH(rd::make_synthetic_ratings({.users = 4, .factors = std::size_t{1} << 62}),
                    Contains("factors must be from 1 to 2^32 - 1"));
  CHECK_THROWS_WITH(rd::make_synthetic_ratings({.noise = -1}), Contains("noise must be"));
}
