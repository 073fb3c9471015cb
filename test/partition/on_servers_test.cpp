// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/partition/on_servers.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/partition/by_function.hpp>
#include <rubato/partition/hash.hpp>
#include <rubato/partition/key_ranges.hpp>
#include <rubato/partition/layout.hpp>
#include <rubato/partition/locator.hpp>
#include <rubato/partition/partition_rule.hpp>
#include <rubato/partition/range.hpp>

#include "seeds.hpp"

using namespace rubato;
using Catch::Contains;

namespace {

using list = std::vector<std::uint32_t>;

/// Some of the servers, in any order.
list random_list(std::mt19937_64& random, std::uint32_t servers) {
  list all(servers);
  std::iota(all.begin(), all.end(), 0U);
  std::ranges::shuffle(all, random);
  all.resize(1 + random() % servers);
  return all;
}

/// What Inner says of as many servers as the list has is looked up in it.
template <partition_policy Inner>
void check_against_list(list const& on, Inner const& inner, table_shape shape, key k) {
  auto const as_many = static_cast<std::uint32_t>(on.size());
  REQUIRE(on_servers(on, inner).server_of(k, shape).value() ==
          on[inner.server_of(k, {shape.rows, as_many}).index()]);
}

}  // namespace

TEST_CASE("on_servers: the rows lie on the servers of the list, spread by range_hash unless said otherwise") {
  static_assert(std::same_as<decltype(on_servers{{1, 3}}), on_servers<range_hash>>);
  layout const where(on_servers{{1, 3}}, {.rows = 1000, .servers = 4});
  CHECK(where.rows_of(server_id{0}) == 0);
  CHECK(where.rows_of(server_id{2}) == 0);
  CHECK(where.rows_of(server_id{1}) + where.rows_of(server_id{3}) == 1000);
  layout const alone(range_hash{}, {.rows = 1000, .servers = 2});
  CHECK(where.rows_of(server_id{1}) == alone.rows_of(server_id{0}));
}

TEST_CASE("on_servers: the order of the list is that of Inner's servers") {
  on_servers const p({3, 1}, key_ranges({0, 500}));
  for (std::uint64_t const rows : {0U, 1000U}) {
    CHECK(p.server_of(key{499}, {rows, 4}) == server_id{3});
    CHECK(p.server_of(key{500}, {rows, 4}) == server_id{1});
  }
}

TEST_CASE("on_servers: over random lists, shapes and keys it is Inner's answer, looked up") {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    std::mt19937_64 random(seed);
    auto const servers = static_cast<std::uint32_t>(1 + random() % 9);
    list const on = random_list(random, servers);
    table_shape const shape{1 + random() % 3000, servers};
    for (int n = 0; n < 50; ++n) {
      key const k{random() % shape.rows};
      check_against_list(on, range{}, shape, k);
      check_against_list(on, hash{}, shape, k);
      check_against_list(on, range_hash{}, shape, k);
      check_against_list(on, hash{}, {0, servers}, key{random()});
      check_against_list(on, range{}, {0, servers}, key{random()});
    }
    layout const where(on_servers(on, range{}), shape);
    std::uint64_t held = 0;
    for (std::uint32_t const s : on) held += where.rows_of(server_id{s});
    REQUIRE(held == shape.rows);
  }
}

TEST_CASE("on_servers: what cannot be meant is an option_error that names the server") {
  CHECK_THROWS_AS(on_servers(list{}), option_error);
  CHECK_THROWS_WITH(on_servers(list{}), Contains("the list is empty"));
  CHECK_THROWS_AS(on_servers({3, 1, 3}), option_error);
  CHECK_THROWS_WITH(on_servers({3, 1, 3}), Contains("server 3 is named twice"));
  on_servers const p({1, 4}, range{});
  CHECK_NOTHROW(p.server_of(key{0}, {10, 5}));
  // Also for a key that does not lie there.
  CHECK_THROWS_AS(p.server_of(key{0}, {10, 4}), option_error);
  CHECK_THROWS_WITH(p.server_of(key{0}, {10, 4}),
                    Contains("the cluster has no server 4, expected servers below 4"));
}

TEST_CASE("on_servers: an Inner that goes wrong is an option_error, not another server") {
  on_servers const beyond({0, 1}, by_function([](key k, table_shape) {
    return server_id{k.value() == 5 ? 2U : 0U};
  }));
  CHECK(beyond.server_of(key{4}, {10, 3}) == server_id{0});
  CHECK_THROWS_WITH(beyond.server_of(key{5}, {10, 3}),
                    Contains("key 5 was given to place 2 of the list, expected one below 2"));
  on_servers const too_many({0, 1}, key_ranges({0, 3, 6}));
  CHECK_THROWS_WITH(too_many.server_of(key{0}, {10, 3}), Contains("3 ranges, expected 2"));
}

TEST_CASE("on_servers: a table of any keys is refused as early as a bounded one") {
  for (bool const bounded : {true, false}) {
    CHECK_THROWS_AS(locator(on_servers({1, 4}, range{}), {10, 4}, bounded), option_error);
    CHECK_THROWS_AS(locator(key_ranges({0, 5}), {10, 3}, bounded), option_error);
    CHECK_NOTHROW(locator(on_servers({1, 4}, range{}), {10, 5}, bounded));
  }
}

TEST_CASE("on_servers: other lists and other Inners have another digest") {
  auto const digest = [](partition_rule const& p) { return p.digest(); };
  CHECK(digest(on_servers{{1, 3}}) == digest(on_servers{{1, 3}}));
  CHECK(digest(on_servers{{1, 3}}) != digest(on_servers{{3, 1}}));
  CHECK(digest(on_servers{{1, 3}}) != digest(on_servers{{1, 2}}));
  CHECK(digest(on_servers{{1, 3}}) != digest(on_servers{{1, 3, 0}}));
  CHECK(digest(on_servers({1, 3}, key_ranges({0, 5}))) != digest(on_servers({1, 3}, key_ranges({0, 6}))));
  CHECK(digest(hash{}) == 0);
}
