// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/overlay.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/storage/dense_store.hpp>

#include "storage/updates.hpp"

using namespace rubato;
using namespace rubato::detail;
using test::elements_of;
using test::keyed;
using test::places;
using test::weighted;
using test::whole;

namespace {

table_state frozen(dense_store<double> const& store) {
  table_state state;
  state.refer(store.chunks(), table_state::chunk_bytes(sizeof(double)),
              [&](std::size_t i) { return store.chunk(i); });
  return state;
}

double at(table_state const& s, std::size_t i) { return elements_of<double>(s, i, 1)[0]; }

std::vector<std::uint64_t> keys_of(table_state const& s) {
  return {s.keys().begin(), s.keys().end()};
}
template <class T>
std::vector<T> values_of(table_state const& s, std::size_t width) {
  auto const* const from = reinterpret_cast<T const*>(s.row_values());
  return {from, from + s.keys().size() * width};
}

/// Adds keyed updates to a state of touched rows.
template <class T>
void add(table_state& to, std::span<weighted_part const> parts, std::size_t width) {
  add_touched_rows(to, rows_of<T>(parts, width), width);
}

}  // namespace

TEST_CASE("overlay: adding to a state copies shared chunks only, and leaves the others as they were") {
  constexpr std::size_t n = table_state::chunk_bytes(sizeof(double)) / sizeof(double);
  std::size_t const elements = 2 * n + 3;
  dense_store<double> store({.rows = elements, .threads = threading::single});
  std::vector<double> start(elements);
  std::iota(start.begin(), start.end(), 0.0);
  store.assign({.values = start});
  table_state const old = frozen(store);
  table_state mine = frozen(store);
  auto const home = places(old);

  auto const some = keyed<double>({2 * n + 2, n + 1, n + 2, n}, {1, 2, 3, 4});
  add_update(mine, some.as<double>(), 2.0, 1);
  auto const moved = places(mine);
  CHECK(moved[0] == home[0]);
  CHECK(moved[1] != home[1]);
  CHECK(moved[2] != home[2]);
  CHECK(at(mine, n) == static_cast<double>(n) + 8);
  CHECK(at(mine, n + 1) == static_cast<double>(n + 1) + 4);
  CHECK(at(mine, n + 2) == static_cast<double>(n + 2) + 6);
  CHECK(at(mine, 2 * n + 2) == static_cast<double>(2 * n + 2) + 2);

  auto const all = whole<double>(std::vector<double>(elements, 1.0));
  add_update(mine, all.as<double>(), 0.5, 1);
  auto const all_moved = places(mine);
  CHECK(all_moved[0] != home[0]);
  CHECK(all_moved[1] == moved[1]);  // it was nobody else's
  weighted_state const minus{&old, -1.0};
  add_states<double>(mine, {&minus, 1});
  add_row_to(mine, n, std::vector<double>{100}.data(), 1, 1.0);
  CHECK(places(mine) == all_moved);
  CHECK(at(mine, 3) == 0.5);
  CHECK(at(mine, n) == 108.5);
  CHECK(at(mine, 2 * n + 2) == 2.5);

  std::uint64_t first = 0;
  for (std::size_t i = 0; i < mine.chunks(); ++i) {  // two refer to the store's chunks
    std::span const values(mine.chunk(i).as<double>(), mine.chunk(i).size<double>());
    weighted_update<double> const run{{.first = first, .values = values}, 2.0};
    store.fold({&run, 1});
    first += values.size();
  }
  table_state const now = frozen(store);
  CHECK(at(now, 3) == 4.0);
  CHECK(at(now, n) == static_cast<double>(n) + 217);
  CHECK(places(old) == home);
  CHECK(elements_of<double>(old, 0, elements) == start);
}

TEST_CASE("overlay: touched rows are merged in ascending order") {
  table_state state;
  add<float>(state, {}, 2);
  CHECK(state.empty());
  auto const a = keyed<float>({7, 3, 900}, {1, 2, 3, 4, 5, 6});
  auto const b = keyed<float>({5, 7, 1}, {10, 10, 20, 20, 30, 30});
  std::vector<weighted_part> parts{{&a, 1.0}};
  add<float>(state, parts, 2);
  CHECK(keys_of(state) == std::vector<std::uint64_t>{3, 7, 900});
  CHECK(values_of<float>(state, 2) == std::vector<float>{3, 4, 1, 2, 5, 6});
  table_state const before = state.share();
  parts = {{&b, 2.0}, {&a, -1.0}, {&b, 0.5}};
  add<float>(state, parts, 2);
  CHECK(keys_of(state) == std::vector<std::uint64_t>{1, 3, 5, 7, 900});
  CHECK(values_of<float>(state, 2) == std::vector<float>{75, 75, 0, 0, 25, 25, 50, 50, 0, 0});
  CHECK(values_of<float>(before, 2) == std::vector<float>{3, 4, 1, 2, 5, 6});
}

TEST_CASE("overlay: adding touched rows equals a map") {
  random_stream random(21);
  constexpr std::size_t width = 2;
  table_state state;
  std::map<std::uint64_t, std::vector<std::int64_t>> expected;
  for (int i = 0; i < 50; ++i) {
    std::vector<update> updates;
    for (int k = 0; k < 3; ++k) {
      std::set<std::uint64_t> some;
      std::uint64_t const most = random.below(8) == 0 ? 60 : random.below(7);
      for (std::uint64_t n = most; n != 0; --n) some.insert(random.below(60));
      std::vector<std::uint64_t> rows;
      std::vector<std::int64_t> values;
      for (std::uint64_t const row : some) {
        rows.insert(row % 2 == 0 ? rows.end() : rows.begin(), row);
        for (std::size_t j = 0; j < width; ++j)
          values.push_back(static_cast<std::int64_t>(random.below(20)) - 10);
      }
      updates.push_back(keyed(rows, values));
    }
    std::vector<weighted_part> parts;
    for (auto const& u : updates) {
      parts.push_back({&u, 2.0});
      for (std::size_t r = 0; r < u.rows.size(); ++r) {
        auto& row = expected[u.rows[r]];
        row.resize(width);
        for (std::size_t j = 0; j < width; ++j)
          row[j] += 2 * u.values.as<std::int64_t>()[r * width + j];
      }
    }
    add<std::int64_t>(state, parts, width);
    std::vector<std::uint64_t> keys;
    std::vector<std::int64_t> values;
    for (auto const& [row, sum] : expected) {
      keys.push_back(row);
      values.insert(values.end(), sum.begin(), sum.end());
    }
    if (expected.empty()) continue;
    REQUIRE(keys_of(state) == keys);
    REQUIRE(values_of<std::int64_t>(state, width) == values);
  }
}

TEST_CASE("overlay: rows that were read get what the updates hold for them") {
  std::vector<std::uint64_t> const rows{4, 1, 4, 0, 4};
  std::vector<double> values{1, 1, 2, 2, 1, 1, 0, 0, 1, 1};
  auto const a = keyed<double>({9, 4, 1}, {50, 50, 10, 11, 20, 21});
  auto const b = whole<double>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  auto const c = keyed<double>({1, 7}, {1, -1, 9, 9});
  update const nothing{};
  std::vector<weighted_part> const parts{{&a, 1.0}, {&b, 2.0}, {&nothing, 1.0}, {&c, 3.0}};
  add_to_rows<double>(rows, values.data(), 2, parts);
  CHECK(values == std::vector<double>{29, 32, 31, 28, 29, 32, 2, 4, 29, 32});

  auto const before = values;
  add_to_rows<double>(rows, values.data(), 2, {});
  CHECK(values == before);
  add_to_rows<double>({}, nullptr, 2, parts);
}
