// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/partition/concepts.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <rubato/partition/by_function.hpp>
#include <rubato/partition/hash.hpp>
#include <rubato/partition/layout.hpp>
#include <rubato/partition/range.hpp>
#include <rubato/partition/range_hash.hpp>

using namespace rubato;

namespace {

// A minimal archetype, and what just misses it.
struct sends {
  server_id server_of(key, table_shape) const;
};
struct sends_to_a_number : sends {
  std::uint32_t server_of(key, table_shape) const;
};
struct sends_by_key_alone : sends {
  server_id server_of(key) const;
};
struct sends_and_changes : sends {
  server_id server_of(key, table_shape);
};
struct sends_uncopied : sends {
  sends_uncopied(sends_uncopied const&) = delete;
};
static_assert(partition_policy<sends>);
static_assert(!partition_policy<sends_to_a_number>);
static_assert(!partition_policy<sends_by_key_alone>);
static_assert(!partition_policy<sends_and_changes>);
static_assert(!partition_policy<sends_uncopied>);
static_assert(!partition_policy<int>);

// Partitions are worked out alike by every machine, so also by the compiler.
static_assert(range{}.server_of(key{9}, {.rows = 10, .servers = 2}) == server_id{1});

constexpr std::uint32_t server_counts[] = {1, 2, 3, 7, 16};
constexpr std::uint64_t row_counts[] = {1, 2, 5, 16, 100, 1023, 5000};

template <partition_policy P>
std::vector<std::uint64_t> rows_by_server(P const& p, table_shape shape) {
  std::vector<std::uint64_t> rows(shape.servers);
  for (std::uint64_t k = 0; k < shape.rows; ++k) {
    server_id const s = p.server_of(key{k}, shape);
    REQUIRE(s.value() < shape.servers);
    REQUIRE(p.server_of(key{k}, shape) == s);
    ++rows[s.index()];
  }
  return rows;
}

std::uint64_t spread(std::vector<std::uint64_t> const& rows) {
  auto const [least, greatest] = std::ranges::minmax(rows);
  return greatest - least;
}

/// Keys all over the 64 bits, ends included.
std::vector<key> keys_of_an_unbounded_table() {
  std::vector<key> keys{key{0}, key{1}, key{~std::uint64_t{0}}, key{~std::uint64_t{0} - 1}};
  for (unsigned bit = 1; bit < 64; ++bit) {
    keys.push_back(key{std::uint64_t{1} << bit});
    keys.push_back(key{(std::uint64_t{1} << bit) - 1});
  }
  return keys;
}

}  // namespace

TEST_CASE("partition: every key has exactly one server, below their number, each time it is "
          "asked") {
  for (std::uint32_t const servers : server_counts)
    for (std::uint64_t const rows : row_counts) {
      INFO(rows << " rows, " << servers << " servers");
      table_shape const shape{.rows = rows, .servers = servers};
      rows_by_server(range{}, shape);
      rows_by_server(hash{}, shape);
      rows_by_server(range_hash{}, shape);
      rows_by_server(range_hash{.runs_per_server = 1}, shape);
      rows_by_server(range_hash{.runs_per_server = 0}, shape);
    }
}

TEST_CASE("partition: every 64-bit key of an unbounded table has a server") {
  for (std::uint32_t const servers : server_counts)
    for (key const k : keys_of_an_unbounded_table()) {
      INFO("key " << k.value() << ", " << servers << " servers");
      table_shape const shape{.rows = 0, .servers = servers};
      CHECK(range{}.server_of(k, shape).value() < servers);
      CHECK(hash{}.server_of(k, shape).value() < servers);
      CHECK(range_hash{}.server_of(k, shape).value() < servers);
      CHECK(range_hash{.rows_per_run = 0}.server_of(k, shape).value() < servers);
    }
}

TEST_CASE("range: keys lie in one run per server, in order, and sizes differ by at most one row") {
  for (std::uint32_t const servers : server_counts)
    for (std::uint64_t const rows : row_counts) {
      INFO(rows << " rows, " << servers << " servers");
      table_shape const shape{.rows = rows, .servers = servers};
      CHECK(spread(rows_by_server(range{}, shape)) <= 1);
      for (std::uint64_t k = 1; k < rows; ++k)
        REQUIRE(range{}.server_of(key{k - 1}, shape) <= range{}.server_of(key{k}, shape));
    }
}

TEST_CASE("range: an unbounded table is split by its upper bits, evenly and in order") {
  table_shape const shape{.rows = 0, .servers = 4};
  CHECK(range{}.server_of(key{0}, shape) == server_id{0});
  CHECK(range{}.server_of(key{(std::uint64_t{1} << 62) - 1}, shape) == server_id{0});
  CHECK(range{}.server_of(key{std::uint64_t{1} << 62}, shape) == server_id{1});
  CHECK(range{}.server_of(key{std::uint64_t{1} << 63}, shape) == server_id{2});
  CHECK(range{}.server_of(key{~std::uint64_t{0}}, shape) == server_id{3});
}

TEST_CASE("hash: load is even, and neighbors are scattered") {
  table_shape const shape{.rows = 70'000, .servers = 7};
  for (std::uint64_t const rows : rows_by_server(hash{}, shape)) {
    CHECK(rows > 9'500);
    CHECK(rows < 10'500);
  }
  int neighbors_together = 0;
  for (std::uint64_t k = 1; k < 7'000; ++k)
    neighbors_together += hash{}.server_of(key{k}, shape) == hash{}.server_of(key{k - 1}, shape);
  CHECK(neighbors_together < 1'500);  // 1000 expected, 7000 in a range
}

TEST_CASE("range_hash: loads differ by one run at most (000 App. D)") {
  for (std::uint32_t const servers : server_counts)
    for (std::uint64_t const rows : row_counts) {
      INFO(rows << " rows, " << servers << " servers");
      std::uint64_t const runs = std::uint64_t{16} * servers;
      std::uint64_t const run_rows = (rows + runs - 1) / runs;
      CHECK(spread(rows_by_server(range_hash{}, {.rows = rows, .servers = servers})) <= run_rows);
    }
}

TEST_CASE("range_hash: neighbors travel in runs, and a hot stretch of keys is spread over "
          "servers") {
  table_shape const shape{.rows = 16'000, .servers = 4};
  layout const where(range_hash{}, shape);
  CHECK(where.runs().size() <= 64);
  std::set<server_id> hot;
  for (std::uint64_t k = 0; k < 1'000; ++k) hot.insert(range_hash{}.server_of(key{k}, shape));
  CHECK(hot.size() == 4);

  table_shape const unbounded{.rows = 0, .servers = 4};
  range_hash const p{.rows_per_run = 100};
  for (std::uint64_t k = 0; k < 10'000; ++k)
    REQUIRE(p.server_of(key{k}, unbounded) == p.server_of(key{k / 100 * 100}, unbounded));
}

TEST_CASE("range_hash: tables and runs of any number are dealt out") {
  std::uint64_t const most = std::numeric_limits<std::uint64_t>::max();
  CHECK_THROWS_WITH(partition_rule(range_hash{.runs_per_server = std::uint64_t{1} << 62}),
                    Catch::Contains("runs_per_server is 4611686018427387904, expected below 2^32"));
  table_shape const large{.rows = most, .servers = 4};
  std::set<server_id> first;
  for (std::uint64_t k = 0; k < 8; ++k) first.insert(range_hash{}.server_of(key{k}, large));
  CHECK(first.size() == 1);  // in a run of 2^58
  for (table_shape const shape : {large, table_shape{.rows = 0, .servers = 4}})
    for (std::uint64_t const k : {std::uint64_t{0}, most / 3, most - 1, most})
      CHECK((range_hash{}.run_end(key{k}, shape) > k || k == most));
}

TEST_CASE("by_function: asks the user's function") {
  by_function const odd_and_even([](key k, table_shape) {
    return server_id{static_cast<std::uint32_t>(k.value() % 2)};
  });
  static_assert(partition_policy<std::remove_const_t<decltype(odd_and_even)>>);
  CHECK(odd_and_even.server_of(key{4}, {.rows = 10, .servers = 2}) == server_id{0});
  CHECK(odd_and_even.server_of(key{5}, {.rows = 10, .servers = 2}) == server_id{1});
}
