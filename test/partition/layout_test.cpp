// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/partition/layout.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/machine_memory.hpp>
#include <rubato/partition/by_function.hpp>
#include <rubato/partition/hash.hpp>
#include <rubato/partition/key_ranges.hpp>
#include <rubato/partition/on_servers.hpp>
#include <rubato/partition/range.hpp>
#include <rubato/partition/range_hash.hpp>

using namespace rubato;

namespace {

/// Counts the rows of each server from the first key on, as the layout's comment says.
template <partition_policy P>
void check_against_counting(P const& p, table_shape shape) {
  INFO(shape.rows << " rows, " << shape.servers << " servers");
  layout const where(p, shape);
  REQUIRE(where.rows() == shape.rows);
  std::vector<std::uint64_t> next(shape.servers);
  for (std::uint64_t k = 0; k < shape.rows; ++k) {
    server_id const s = p.server_of(key{k}, shape);
    layout::place const at = where.locate(key{k});
    REQUIRE(at.server == s);
    REQUIRE(at.local == next[s.index()]++);
  }
  for (std::uint32_t s = 0; s < shape.servers; ++s)
    REQUIRE(where.rows_of(server_id{s}) == next[s]);

  std::uint64_t covered = 0;
  server_id before{shape.servers};
  for (layout::run const& r : where.runs()) {
    REQUIRE(r.first == covered);
    REQUIRE(r.rows > 0);
    REQUIRE(r.server != before);  // else it would be one run
    before = r.server;
    covered += r.rows;
  }
  REQUIRE(covered == shape.rows);
}

}  // namespace

TEST_CASE("layout: local rows are dense from 0 in the order of the keys, for every partition") {
  for (std::uint32_t const servers : {1U, 2U, 5U, 16U})
    for (std::uint64_t const rows : {1U, 2U, 7U, 64U, 1000U}) {
      table_shape const shape{.rows = rows, .servers = servers};
      check_against_counting(range{}, shape);
      check_against_counting(hash{}, shape);
      check_against_counting(range_hash{}, shape);
      check_against_counting(range_hash{.runs_per_server = 3}, shape);
      check_against_counting(on_servers({servers - 1}, range{}), shape);
      check_against_counting(on_servers({0}, hash{}), shape);
    }
  check_against_counting(key_ranges({0, 0, 4, 4, 10, 99}), {.rows = 50, .servers = 6});
  by_function const last_one_only(
      [](key, table_shape shape) { return server_id{shape.servers - 1}; });
  check_against_counting(last_one_only, {.rows = 20, .servers = 3});
}

TEST_CASE("layout: rows are found where many short runs are beside a few long ones") {
  std::vector<std::uint64_t> firsts;
  for (std::uint64_t k = 0; k < 40; ++k) firsts.push_back(k);
  for (std::uint64_t k = 0; k < 40; ++k) firsts.push_back(30'000 + 3 * k);
  check_against_counting(key_ranges(firsts), {.rows = 1 << 16, .servers = 80});
  firsts.push_back((1 << 16) - 1);
  check_against_counting(key_ranges(firsts), {.rows = 1 << 16, .servers = 81});
}

TEST_CASE("layout: of as many rows as there can be, the first and the last of each run are found") {
  for (std::uint64_t const rows : {std::uint64_t{1} << 63, (std::uint64_t{1} << 63) + 1, ~std::uint64_t{0}})
    for (std::uint32_t const servers : {1U, 2U, 3U}) {
      layout const where(range{}, {.rows = rows, .servers = servers});
      REQUIRE(where.runs().size() == servers);
      for (layout::run const& r : where.runs()) {
        CHECK(where.locate(key{r.first}).server == r.server);
        CHECK(where.locate(key{r.first}).local == 0);
        CHECK(where.locate(key{r.first + r.rows - 1}).server == r.server);
        CHECK(where.locate(key{r.first + r.rows - 1}).local == r.rows - 1);
      }
    }
}

TEST_CASE("layout: with more servers than rows some servers hold nothing") {
  layout const where(range{}, {.rows = 3, .servers = 8});
  std::uint64_t rows = 0;
  int empty = 0;
  for (std::uint32_t s = 0; s < 8; ++s) {
    rows += where.rows_of(server_id{s});
    empty += where.rows_of(server_id{s}) == 0;
  }
  CHECK(rows == 3);
  CHECK(empty == 5);
}

TEST_CASE("layout: each server's runs, from any of its rows on") {
  for (std::uint64_t const rows : {1U, 2U, 100U, 4096U}) {
    layout const where(hash{}, {.rows = rows, .servers = 3});
    for (std::uint32_t s = 0; s < 3; ++s) {
      server_id const server{s};
      std::uint64_t local = 0;
      for (std::size_t const i : where.runs_of(server)) {
        auto const& run = where.runs()[i];
        CHECK(run.server == server);
        CHECK(run.local_first == local);
        CHECK(where.runs_of(server, local).front() == i);
        local += run.rows;
        CHECK(where.runs_of(server, local - 1).front() == i);
      }
      CHECK(local == where.rows_of(server));
    }
    for (std::uint64_t k = 0; k < rows; ++k) {
      layout::place const at = where.locate(key{k});
      CHECK(where.key_of(at.server, at.local) == key{k});
    }
  }
}

TEST_CASE("layout: one server holds one run") {
  CHECK(layout(range_hash{}, {.rows = 1000, .servers = 1}).runs().size() == 1);
  CHECK(layout(hash{}, {.rows = 1000, .servers = 1}).runs().size() == 1);
}

TEST_CASE("layout: where runs of keys are known, no row is asked for") {
  std::uint64_t const rows = std::uint64_t{1} << 44;
  table_shape const shape{.rows = rows, .servers = 3};
  CHECK(layout(range{}, shape).runs().size() == 3);
  CHECK(layout(range_hash{}, shape).runs().size() <= 48);
  CHECK(layout(key_ranges({0, 5, rows - 1}), shape).locate(key{rows - 1}).server == server_id{2});
  CHECK(layout(on_servers({1, 2}, range{}), shape).rows_of(server_id{1}) == rows / 2);
}

TEST_CASE("layout: a table with too many rows to ask for, or to know the places of, is refused before that") {
  std::uint64_t const asked_max = std::uint64_t{1} << 33;
  by_function const all_on_one([](key, table_shape) { return server_id{0}; });
  CHECK_THROWS_AS(layout(all_on_one, {.rows = asked_max + 1, .servers = 2}), option_error);
  CHECK_THROWS_WITH(layout(all_on_one, {.rows = asked_max + 1, .servers = 2}),
                    Catch::Contains("each of 8589934593 rows") && Catch::Contains("run_end"));

  // Beyond memory with two rows in three in a run of their own, and some more than 16 bytes each.
  std::uint64_t const scattered = std::min(machine_memory() / 16, asked_max);
  if (scattered == asked_max) return;  // a large machine
  CHECK_THROWS_WITH(layout(hash{}, {.rows = scattered, .servers = 3}),
                    Catch::Contains("scatters " + std::to_string(scattered)) && Catch::Contains("GiB"));
  CHECK_THROWS_WITH(layout(range_hash{.runs_per_server = scattered}, {.rows = scattered, .servers = 3}),
                    Catch::Contains("scatters"));
}

TEST_CASE("layout: a server that there is not is an option_error that names key and server") {
  by_function const wrong([](key k, table_shape) { return server_id{k.value() == 5 ? 9U : 0U}; });
  CHECK_THROWS_AS(layout(wrong, {.rows = 8, .servers = 3}), option_error);
  CHECK_THROWS_WITH(layout(wrong, {.rows = 8, .servers = 3}),
                    Catch::Contains("key 5") && Catch::Contains("server 9") &&
                        Catch::Contains("below 3"));
  CHECK_NOTHROW(layout(wrong, {.rows = 5, .servers = 3}));
}
