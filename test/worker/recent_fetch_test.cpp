// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/recent_fetch.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

using namespace rubato;

namespace {

using keys = std::vector<std::uint64_t>;
constexpr std::size_t row_bytes = sizeof(float);

/// Row k with the value k, fetched at these servers' clocks.
recent_fetch fetched(keys const& rows, std::vector<std::int64_t> const& clocks) {
  recent_fetch f;
  f.start(rows.size(), {.at = clock_index{5}, .need = clock_index{2}, .fetch = 9}, row_bytes);
  CHECK(f.empty());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto const value = static_cast<float>(rows[i]);
    std::memcpy(f.set(i, clock_index{clocks[i]}, row_bytes), &value, row_bytes);
  }
  f.keep(rows);
  return f;
}

float value_of(row_cache<>& rows, std::uint64_t k) {
  float value = 0;
  std::memcpy(&value, rows.values(*rows.find(k)), row_bytes);
  return value;
}

}  // namespace

TEST_CASE("recent_fetch: rows move to where they are found by key, as they were fetched") {
  recent_fetch f = fetched({2, 3, 8}, {4, 6, 5});
  row_cache<> rows(row_bytes);
  f.move_to(rows, row_bytes);
  CHECK(f.empty());
  REQUIRE(rows.size() == 3);
  CHECK(value_of(rows, 8) == 8.0F);
  fetch_mark const& mark = rows.find(3)->mark;
  CHECK(mark.server_clock == clock_index{6});
  CHECK(mark.at == clock_index{5});
  CHECK(mark.need == clock_index{2});
  CHECK(mark.fetch == 9);
}

TEST_CASE("recent_fetch: own pushes to the same rows are added, others are left to the caller (SSP-2)") {
  recent_fetch f = fetched({2, 3, 8}, {4, 4, 4});
  std::vector<float> const deltas{10, 20, 30};
  CHECK_FALSE(f.is_of(keys{2, 3}));
  CHECK_FALSE(f.is_of(keys{2, 3, 9}));
  REQUIRE(f.is_of(keys{2, 3, 8}));
  f.add(deltas.data());
  row_cache<> rows(row_bytes);
  f.move_to(rows, row_bytes);
  CHECK(value_of(rows, 2) == 12.0F);
  CHECK(value_of(rows, 3) == 23.0F);
  CHECK(value_of(rows, 8) == 38.0F);
  CHECK_FALSE(f.is_of(keys{2, 3, 8}));
  CHECK_FALSE(f.is_of(keys{}));
}

TEST_CASE("recent_fetch: is given up once no row is from a clock that will do") {
  recent_fetch f = fetched({2, 3}, {4, 6});
  f.clear_unless_from(clock_index{6});
  CHECK_FALSE(f.empty());
  f.clear_unless_from(clock_index{7});
  CHECK(f.empty());
  f = fetched({2}, {1});
  f.clear_unless_from(clock_index{2});  // of the one before nothing is left
  CHECK(f.empty());
}

TEST_CASE("recent_fetch: takes over the values of a whole fetch, and gives memory for the next") {
  keys const rows{2, 3, 8};
  raw_array values;
  std::vector<float> const some{1, 2, 3};
  values.append(std::as_bytes(std::span(some)));
  std::byte const* const at = values.data();
  recent_fetch f;
  f.start(rows.size(), {.at = clock_index{5}, .need = clock_index{2}, .fetch = 9}, row_bytes);
  f.set_all(clock_index{6}, values);
  CHECK(f.empty());
  f.keep(rows);
  CHECK(values.data() != at);
  f.clear_unless_from(clock_index{6});
  row_cache<> found(row_bytes);
  f.move_to(found, row_bytes);
  REQUIRE(found.size() == 3);
  CHECK(value_of(found, 3) == 2.0F);
  CHECK(found.find(8)->mark.server_clock == clock_index{6});
  CHECK(found.find(8)->mark.fetch == 9);
}
