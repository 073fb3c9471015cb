// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/row_index.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <rubato/core/mix.hpp>

using rubato::detail::mix64;
using rubato::detail::row_index;

TEST_CASE("row_index: numbers rows as they are added, and finds each of them, and no other") {
  row_index rows;
  rows.expect(mix64(5));
  CHECK(rows.find(5, mix64(5)) == row_index::none);
  CHECK(rows.bytes() == 0);
  std::vector<std::uint64_t> added{0, ~std::uint64_t{0}};
  for (std::uint64_t i = 1; i < 5000; ++i) added.push_back(i * 977);
  for (std::size_t i = 0; i < added.size(); ++i) {
    REQUIRE(rows.find(added[i], mix64(added[i])) == row_index::none);
    rows.add(added[i], mix64(added[i]));
    REQUIRE(rows.find(added[i], mix64(added[i])) == i);
  }
  CHECK(rows.size() == added.size());
  CHECK(rows.bytes() <= 64 * added.size());
  for (std::size_t i = 0; i < added.size(); ++i) {
    rows.expect(mix64(added[i]));
    REQUIRE(rows.find(added[i], mix64(added[i])) == i);
  }
  for (std::uint64_t i = 1; i < 5000; ++i) REQUIRE(rows.find(i * 977 + 1, mix64(i * 977 + 1)) == row_index::none);
}

TEST_CASE("row_index: rows whose hashes begin at the same place are all found") {
  // Lower bits that are all ones: those that find their place taken begin again at the first.
  row_index rows;
  std::vector<std::uint64_t> same;
  for (std::uint64_t k = 0; same.size() < 6; ++k)
    if ((mix64(k) & 0xff) == 0xff) same.push_back(k);
  for (std::uint64_t const k : same) rows.add(k, mix64(k));
  for (std::size_t i = 0; i < same.size(); ++i) CHECK(rows.find(same[i], mix64(same[i])) == i);
}

TEST_CASE("row_index: tells all rows with their numbers") {
  row_index rows;
  std::map<std::uint64_t, std::size_t> expected, told;
  for (std::uint64_t k = 0; k < 100; ++k) {
    expected[k * k] = rows.size();
    rows.add(k * k, mix64(k * k));
  }
  rows.for_each([&](std::uint64_t row, std::size_t number) { REQUIRE(told.emplace(row, number).second); });
  CHECK(told == expected);
}
