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

namespace {

constexpr std::uint64_t last_row = ~std::uint64_t{0};

void add(row_index<std::uint64_t>& rows, std::uint64_t row, std::uint64_t value) {
  CHECK(*rows.add(row, mix64(row), value) == value);
}

}  // namespace

TEST_CASE("row_index: finds each row's value, and no other row") {
  row_index<std::uint64_t> rows;
  rows.expect(mix64(5));
  CHECK(rows.find(5, mix64(5)) == nullptr);
  CHECK(rows.find(last_row, mix64(last_row)) == nullptr);
  CHECK(rows.bytes() == 0);
  std::vector<std::uint64_t> added{0};
  for (std::uint64_t i = 1; i < 5000; ++i) added.push_back(i * 977);
  for (std::size_t i = 0; i < added.size(); ++i) {
    REQUIRE(rows.find(added[i], mix64(added[i])) == nullptr);
    REQUIRE(*rows.add(added[i], mix64(added[i]), i) == i);
    REQUIRE(*rows.find(added[i], mix64(added[i])) == i);
  }
  CHECK(rows.size() == added.size());
  CHECK(rows.bytes() <= 64 * added.size());
  for (std::size_t i = 0; i < added.size(); ++i) {
    rows.expect(mix64(added[i]));
    REQUIRE(*rows.find(added[i], mix64(added[i])) == i);
  }
  for (std::uint64_t i = 1; i < 5000; ++i) REQUIRE(rows.find(i * 977 + 1, mix64(i * 977 + 1)) == nullptr);
  CHECK(rows.find(last_row, mix64(last_row)) == nullptr);
}

TEST_CASE("row_index: the row that free places are marked by is a row like others") {
  row_index<float> rows;
  *rows.add(last_row, mix64(last_row), 1.0F) += 1.0F;
  CHECK(rows.size() == 1);
  CHECK(rows.find(0, mix64(0)) == nullptr);
  for (std::uint64_t k = 0; k < 100; ++k) (void)rows.add(k, mix64(k), 0.0F);
  REQUIRE(rows.find(last_row, mix64(last_row)) != nullptr);
  CHECK(*rows.find(last_row, mix64(last_row)) == 2.0F);
  CHECK(rows.size() == 101);
  std::size_t told = 0;
  rows.for_each([&](std::uint64_t row, float value) { told += row == last_row && value == 2.0F ? 1 : 0; });
  CHECK(told == 1);
}

TEST_CASE("row_index: rows whose hashes begin at the same place are all found") {
  // Lower bits that are all ones: those that find their place taken begin again at the first.
  row_index<std::uint64_t> rows;
  std::vector<std::uint64_t> same;
  for (std::uint64_t k = 0; same.size() < 6; ++k)
    if ((mix64(k) & 0xff) == 0xff) same.push_back(k);
  for (std::size_t i = 0; i < same.size(); ++i) add(rows, same[i], i);
  for (std::size_t i = 0; i < same.size(); ++i) CHECK(*rows.find(same[i], mix64(same[i])) == i);
}

TEST_CASE("row_index: tells all rows with their values") {
  row_index<std::uint64_t> rows;
  std::map<std::uint64_t, std::uint64_t> expected, told;
  for (std::uint64_t k = 0; k < 100; ++k) {
    expected[k * k] = k;
    add(rows, k * k, k);
  }
  rows.for_each([&](std::uint64_t row, std::uint64_t value) { REQUIRE(told.emplace(row, value).second); });
  CHECK(told == expected);
}
