// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/partition/key_ranges.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/partition/layout.hpp>

#include "seeds.hpp"

using namespace rubato;
using Catch::Contains;

namespace {

using first_keys = std::vector<std::uint64_t>;

/// As the class's comment says it: the one whose range the key is in.
std::uint32_t searched(first_keys const& first, std::uint64_t k) {
  for (std::size_t s = 0; s + 1 < first.size(); ++s)
    if (first[s] <= k && k < first[s + 1]) return static_cast<std::uint32_t>(s);
  return static_cast<std::uint32_t>(first.size() - 1);
}

first_keys random_ranges(std::mt19937_64& random, std::uint64_t below) {
  first_keys first(1 + random() % 9);
  for (std::uint64_t& k : first) k = random() % below;
  first[0] = 0;
  std::ranges::sort(first);
  return first;
}

}  // namespace

TEST_CASE("key_ranges: a server holds the keys from where its range begins to where the next one does") {
  key_ranges const p({0, 10, 50});
  for (table_shape const shape : {table_shape{100, 3}, table_shape{0, 3}}) {
    CHECK(p.server_of(key{0}, shape) == server_id{0});
    CHECK(p.server_of(key{9}, shape) == server_id{0});
    CHECK(p.server_of(key{10}, shape) == server_id{1});
    CHECK(p.server_of(key{49}, shape) == server_id{1});
    CHECK(p.server_of(key{50}, shape) == server_id{2});
    CHECK(p.server_of(key{99}, shape) == server_id{2});
  }
  CHECK(p.server_of(key{~std::uint64_t{0}}, {0, 3}) == server_id{2});
  CHECK(key_ranges({0}).server_of(key{77}, {0, 1}) == server_id{0});
}

TEST_CASE("key_ranges: a range that begins where the next one does is empty, the first and the last too") {
  layout const where(key_ranges({0, 0, 4, 4, 10, 99}), {.rows = 10, .servers = 6});
  std::vector<std::uint64_t> rows;
  for (std::uint32_t s = 0; s < 6; ++s) rows.push_back(where.rows_of(server_id{s}));
  CHECK(rows == std::vector<std::uint64_t>{0, 4, 0, 6, 0, 0});
}

TEST_CASE("key_ranges: of random ranges every key is in the one that a search finds") {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    std::mt19937_64 random(seed);
    std::uint64_t const rows = 1 + random() % 300;
    first_keys const first = random_ranges(random, rows + 5);
    key_ranges const p(first);
    auto const servers = static_cast<std::uint32_t>(first.size());
    layout const where(p, {rows, servers});
    for (std::uint64_t k = 0; k < rows; ++k) {
      REQUIRE(p.server_of(key{k}, {rows, servers}).value() == searched(first, k));
      REQUIRE(where.locate(key{k}).server.value() == searched(first, k));
    }
    first_keys const wide = random_ranges(random, ~std::uint64_t{0});
    for (int n = 0; n < 50; ++n) {
      std::uint64_t const k = n % 2 == 0 ? random() : wide[random() % wide.size()] - random() % 2;
      REQUIRE(key_ranges(wide).server_of(key{k}, {0, static_cast<std::uint32_t>(wide.size())}).value() ==
              searched(wide, k));
    }
  }
}

TEST_CASE("key_ranges: what cannot be meant is an option_error that says what was expected") {
  CHECK_THROWS_AS(key_ranges(first_keys{}), option_error);
  CHECK_THROWS_WITH(key_ranges(first_keys{}), Contains("no ranges"));
  CHECK_THROWS_AS(key_ranges({3, 10}), option_error);
  CHECK_THROWS_WITH(key_ranges({3, 10}), Contains("the first range begins at key 3, expected 0"));
  CHECK_THROWS_AS(key_ranges({0, 10, 9}), option_error);
  CHECK_THROWS_WITH(key_ranges({0, 10, 9, 8}),
                    Contains("range 2 begins at key 9, expected one not below 10"));
  key_ranges const three({0, 10, 20});
  for (std::uint32_t const servers : {1U, 2U, 4U}) {
    CHECK_THROWS_AS(three.server_of(key{0}, {100, servers}), option_error);
    CHECK_THROWS_WITH(three.server_of(key{0}, {100, servers}),
                      Contains("there are 3 ranges, expected " + std::to_string(servers)));
  }
}

TEST_CASE("key_ranges: other ranges have another digest") {
  CHECK(key_ranges({0, 10}).digest() == key_ranges({0, 10}).digest());
  CHECK(key_ranges({0, 10}).digest() != key_ranges({0, 11}).digest());
  CHECK(key_ranges({0, 10}).digest() != key_ranges({0, 10, 10}).digest());
  CHECK(key_ranges({0}).digest() != key_ranges({0, 0}).digest());
}
