// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/partition/locator.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/partition/by_function.hpp>
#include <rubato/partition/hash.hpp>
#include <rubato/partition/range.hpp>

using namespace rubato;

TEST_CASE("locator: a bounded table contains the keys below its rows, and copies share the "
          "layout") {
  locator const where(range{}, {.rows = 10, .servers = 3}, true);
  locator const copy = where;
  CHECK(where.bounded());
  CHECK(where.contains(key{9}));
  CHECK_FALSE(where.contains(key{10}));
  CHECK(&copy.rows() == &where.rows());
  CHECK(copy.locate(key{9}).server == server_id{2});
  CHECK(where.rows_of(server_id{0}) == 4);
  // Without rows it contains none: 0 does not mean every key.
  CHECK_FALSE(locator(range{}, {.rows = 0, .servers = 3}, true).contains(key{0}));
}

TEST_CASE("locator: in an open table a local row is the key, and rows = 0 allows every key") {
  locator const any(hash{}, {.rows = 0, .servers = 5}, false);
  CHECK_FALSE(any.bounded());
  CHECK(any.contains(key{~std::uint64_t{0}}));
  CHECK(any.locate(key{77}).local == 77);
  CHECK(any.locate(key{77}).server == hash{}.server_of(key{77}, {.rows = 0, .servers = 5}));
  CHECK(any.rows_of(server_id{0}) == 0);
  locator const some(range{}, {.rows = 100, .servers = 5}, false);
  CHECK(some.contains(key{99}));
  CHECK_FALSE(some.contains(key{100}));
  CHECK(some.rows_of(server_id{0}) == 0);
}

TEST_CASE("locator: says whether all of some keys are in the table") {
  locator const where(range{}, {.rows = 10, .servers = 3}, true);
  std::vector<std::uint64_t> keys;
  CHECK(where.contains_all(keys));
  keys = {9, 0, 3};
  CHECK(where.contains_all(keys));
  for (std::size_t const at : {0U, 1U, 2U}) {
    keys = {9, 0, 3};
    keys[at] = 10;
    CHECK_FALSE(where.contains_all(keys));
  }
  CHECK(locator(hash{}, {.rows = 0, .servers = 3}, false).contains_all(keys));
  CHECK_FALSE(locator(hash{}, {.rows = 10, .servers = 3}, false).contains_all(keys));
  CHECK_FALSE(locator(range{}, {.rows = 0, .servers = 3}, true).contains_all(keys));
}

TEST_CASE("locator: a server is the only one if it has every row under its key") {
  CHECK(locator(range{}, {.rows = 10, .servers = 1}, true).only_server() == server_id{0});
  CHECK(locator(hash{}, {.rows = 0, .servers = 1}, false).only_server() == server_id{0});
  CHECK_FALSE(locator(range{}, {.rows = 10, .servers = 2}, true).only_server());
  CHECK_FALSE(locator(hash{}, {.rows = 0, .servers = 2}, false).only_server());
  by_function const third([](key, table_shape) { return server_id{2}; });
  CHECK(locator(third, {.rows = 10, .servers = 3}, true).only_server() == server_id{2});
  CHECK_FALSE(locator(range{}, {.rows = 0, .servers = 1}, true).only_server());  // there is no row
}

TEST_CASE("locator: many keys at once are located as one by one, in their order") {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t k = 0; k < 1000; ++k) keys.push_back(k * 7919 % 1000);
  std::vector<layout::place> places{{server_id{9}, 9}};
  for (bool const bounded : {true, false})
    for (std::uint32_t const servers : {1U, 5U}) {
      INFO(bounded << " " << servers);
      locator const where(hash{}, {.rows = 1000, .servers = servers}, bounded);
      where.locate(keys, places);
      REQUIRE(places.size() == keys.size());
      for (std::size_t i = 0; i < keys.size(); ++i) {
        layout::place const one = where.locate(key{keys[i]});
        REQUIRE(places[i].server == one.server);
        REQUIRE(places[i].local == one.local);
        REQUIRE(one.server == hash{}.server_of(key{keys[i]}, {1000, servers}));
        if (!bounded) REQUIRE(one.local == keys[i]);
      }
      where.locate({}, places);
      REQUIRE(places.empty());
    }
}

TEST_CASE("locator: a server that there is not is an option_error, of a bounded table at once") {
  by_function const wrong([](key k, table_shape) { return server_id{k.value() == 300 ? 9U : 0U}; });
  CHECK_THROWS_WITH(locator(wrong, {.rows = 301, .servers = 3}, true),
                    Catch::Contains("key 300") && Catch::Contains("server 9") &&
                        Catch::Contains("below 3"));
  locator const open(wrong, {.rows = 0, .servers = 3}, false);
  CHECK(open.locate(key{299}).server == server_id{0});
  CHECK_THROWS_AS(open.locate(key{300}), option_error);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t k = 0; k < 301; ++k) keys.push_back(k);
  std::vector<layout::place> places;
  CHECK_THROWS_WITH(open.locate(keys, places), Catch::Contains("key 300"));
  keys.pop_back();
  CHECK_NOTHROW(open.locate(keys, places));
}
