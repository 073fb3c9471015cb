// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/version_delta.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <rubato/core/random.hpp>

#include "storage/updates.hpp"

using namespace rubato;
using test::keyed;
using test::raw;
using test::whole;

namespace {

using delta_type = version_delta<float, std::uint32_t>;

template <class T, class Row>
void add(version_delta<T, Row>& delta, update const& u, double weight) {
  delta.add(u.as<T>(), weight);
}

template <class T, class Row>
std::vector<T> all_of(version_delta<T, Row> const& delta, std::uint64_t rows, std::size_t width) {
  std::vector<T> out(static_cast<std::size_t>(rows) * width);
  for (std::uint64_t r = 0; r < rows; ++r) delta.add_to_row(r, out.data() + r * width, 1.0);
  return out;
}

/// The plain loop.
template <class T>
void add(std::vector<T>& w, update const& u, std::size_t width, double weight) {
  auto const values = u.values.as<T>();
  std::size_t const n = values.size() / width;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < width; ++j)
      w[(u.whole ? i : static_cast<std::size_t>(u.rows[i])) * width + j] +=
          static_cast<T>(weight) * values[i * width + j];
}

/// Some rows' worth of values, as a whole update or as a keyed one in no particular order.
template <class T>
update random_update(std::uint64_t rows, std::size_t width, bool whole, random_stream& random) {
  std::set<std::uint64_t> some;
  for (std::uint64_t i = random.below(rows / 4 + 2); i != 0; --i) some.insert(random.below(rows));
  std::vector<std::uint64_t> listed;
  std::vector<T> values;
  if (whole) values.resize(static_cast<std::size_t>(rows) * width);
  for (std::uint64_t const row : some) {
    if (!whole) listed.insert(row % 2 == 0 ? listed.end() : listed.begin(), row);
    for (std::size_t j = 0; j < width; ++j) {
      T const value = static_cast<T>(random.below(100)) - T{50};
      if (whole) values[static_cast<std::size_t>(row) * width + j] = value;
      else values.push_back(value);
    }
  }
  return {.whole = whole, .rows = std::move(listed), .values = raw(values)};
}

/// What a delta holds, as it tells by itself. Checks that no row occurs twice.
template <class T, class Row>
std::map<std::uint64_t, std::vector<T>> held_by(version_delta<T, Row> const& delta,
                                                std::size_t width) {
  std::map<std::uint64_t, std::vector<T>> rows;
  bool repeats = false;
  delta.for_each_row([&](std::uint64_t row, T const* values) {
    repeats |= !rows.try_emplace(row, values, values + width).second;
  });
  CHECK_FALSE(repeats);
  return rows;
}

/// `count` different rows below `rows`, in any order, with values that add up without rounding.
template <class T>
update scattered_update(std::uint64_t rows, std::size_t width, std::size_t count,
                        random_stream& random) {
  std::set<std::uint64_t> seen;
  std::vector<std::uint64_t> listed;
  std::vector<T> values;
  while (seen.size() < count)
    if (std::uint64_t const row = random.below(rows); seen.insert(row).second)
      listed.push_back(row);
  for (std::size_t i = 0; i < count * width; ++i)
    values.push_back(static_cast<T>(random.below(200)) - T{100});
  return keyed(std::move(listed), values);
}

}  // namespace

TEST_CASE("version_delta: becomes dense at exactly half of the rows, and no value changes") {
  auto const rows = GENERATE(as<std::uint64_t>{}, 1, 2, 7, 8);
  INFO(rows << " rows");
  std::size_t const width = 2;
  delta_type delta(rows, width);
  std::vector<float> expected(rows * width);
  for (std::uint64_t r = rows; r-- > 0;) {
    auto const u = keyed<float>({r}, {static_cast<float>(r) + 1, -0.5F});
    add(delta, u, 2.0);
    add(expected, u, width, 2.0);
    std::uint64_t const stored = rows - r;
    CHECK(delta.is_dense() == (2 * stored >= rows));
    CHECK(delta.rows() == (delta.is_dense() ? rows : stored));
    CHECK(all_of(delta, rows, width) == expected);
  }
  CHECK(delta.bytes() == rows * width * sizeof(float));
}

TEST_CASE("version_delta: rows that are there already do not count again") {
  delta_type delta(8, 1);
  for (int i = 0; i < 10; ++i) add(delta, keyed<float>({5, 1, 3}, {1, 2, 3}), 1.0);
  CHECK_FALSE(delta.is_dense());
  CHECK(delta.rows() == 3);
  add(delta, whole<float>({0, 1, 0, 1, 0, 1, 0, 0}), 1.0);
  CHECK_FALSE(delta.is_dense());
  CHECK(all_of(delta, 8, 1) == std::vector<float>{0, 21, 0, 31, 0, 11, 0, 0});
  add(delta, whole<float>({0, 0, 0, 0, 0, 0, 0, 4}), 0.5);
  CHECK(delta.is_dense());
  CHECK(all_of(delta, 8, 1) == std::vector<float>{0, 21, 0, 31, 0, 11, 0, 2});
}

TEST_CASE("version_delta: a whole update brings only its rows that are not zero") {
  delta_type delta(100, 2);
  add(delta, whole<float>(std::vector<float>(200)), 1.0);
  CHECK(delta.rows() == 0);
  CHECK(delta.bytes() == 0);
  std::vector<float> values(200);
  values[7] = 4;  // half of row 3 is zero
  values[100] = -1;
  values[101] = 1;
  add(delta, whole<float>(values), 0.5);
  CHECK(delta.rows() == 2);
  CHECK_FALSE(delta.is_dense());
  std::iota(values.begin(), values.end(), 0.0F);
  add(delta, whole<float>(values), 2.0);
  CHECK(delta.is_dense());
  CHECK(all_of(delta, 100, 2)[7] == 16.0F);
  CHECK(all_of(delta, 100, 2)[100] == 199.5F);
}

TEST_CASE("version_delta: one update with most rows makes it dense at once") {
  delta_type first_whole(6, 1);
  add(first_whole, whole<float>({1, 2, 3, 4, 5, 6}), 3.0);
  CHECK(first_whole.is_dense());
  CHECK(all_of(first_whole, 6, 1) == std::vector<float>{3, 6, 9, 12, 15, 18});
  delta_type first_keyed(6, 1);
  add(first_keyed, keyed<float>({5, 4, 0}, {1, 2, 3}), 3.0);
  CHECK(first_keyed.is_dense());
  CHECK(all_of(first_keyed, 6, 1) == std::vector<float>{9, 0, 0, 0, 6, 3});
}

TEST_CASE("version_delta: without a bound it is never dense, and rows are any numbers") {
  version_delta<double, std::uint64_t> delta(0, 1);
  std::vector<std::uint64_t> rows{~std::uint64_t{0}, 0, std::uint64_t{1} << 32, 1};
  for (int i = 0; i < 3; ++i) add(delta, keyed<double>(rows, {1, 2, 3, 4}), 1.0);
  CHECK_FALSE(delta.is_dense());
  CHECK(delta.rows() == 4);
  double at = 0.5;
  delta.add_to_row(~std::uint64_t{0}, &at, 2.0);
  CHECK(at == 6.5);
  delta.add_to_row(std::uint64_t{1} << 33, &at, 2.0);
  CHECK(at == 6.5);
  std::set<std::uint64_t> seen;
  delta.for_each_row([&](std::uint64_t row, double const* values) {
    CHECK(seen.insert(row).second);
    double expected = 0;
    delta.add_to_row(row, &expected, 1.0);
    CHECK(*values == expected);
  });
  CHECK(seen == std::set<std::uint64_t>(rows.begin(), rows.end()));
}

TEST_CASE("version_delta: a server without rows, and empty updates") {
  delta_type delta(0, 3);
  add(delta, {}, 1.0);
  add(delta, whole<float>({}), 1.0);
  CHECK(delta.rows() == 0);
  CHECK(delta.bytes() == 0);
}

TEST_CASE("version_delta: memory is that of the rows it holds, and goes with them") {
  constexpr std::uint64_t rows = 1'000'000;
  delta_type delta(rows, 4);
  CHECK(delta.bytes() == 0);
  std::vector<float> const row(4, 1.0F);
  for (std::uint64_t r = 0; r < 1000; ++r) add(delta, keyed<float>({r * 997}, row), 1.0);
  std::size_t const least = 1000 * (4 * sizeof(float) + sizeof(std::uint32_t));
  CHECK(delta.bytes() >= least);
  CHECK(delta.bytes() < least + least / 4);
  auto const taken = delta.take_keyed();
  CHECK(delta.bytes() == 0);
  CHECK(delta.rows() == 0);
  REQUIRE(taken.rows.size() == 1000);
  CHECK(taken.rows[999] == 999 * 997);
  CHECK(taken.values == std::vector<float>(4000, 1.0F));
}

TEST_CASE("version_delta: a row of one float takes 10 bytes at most, however rows arrive") {
  constexpr std::uint64_t rows = 1'000'000;
  auto const at_once = GENERATE(as<std::size_t>{}, 1, 7, 100, 2'500, 10'000);
  INFO(at_once << " rows at once");
  delta_type delta(rows, 1);
  for (std::uint64_t r = 0; delta.rows() < 10'000;) {
    std::vector<std::uint64_t> some;
    for (std::size_t const n = std::min<std::size_t>(at_once, 10'000 - delta.rows());
         some.size() < n; ++r)
      some.push_back(r * 618'001 % rows);
    add(delta, keyed(some, std::vector<float>(some.size(), 1.0F)), 1.0);
  }
  CHECK(delta.rows() == 10'000);
  CHECK(delta.bytes() >= 80'000);
  CHECK(delta.bytes() <= 100'000);
}

TEST_CASE("version_delta: values stay when rows move into the run") {
  std::size_t const width = GENERATE(as<std::size_t>{}, 1, 3);
  constexpr std::uint64_t rows = 4'000;
  delta_type delta(rows, width);
  std::vector<float> expected(rows * width);
  for (std::uint64_t i = 0; i < 400; ++i) {  // one by one, so that all limits are met exactly
    std::vector<float> values(width, static_cast<float>(i) + 1);
    auto const u = keyed<float>({i * 1'237 % rows}, values);
    add(delta, u, 1.0);
    add(expected, u, width, 1.0);
    REQUIRE(delta.rows() == i + 1);
    REQUIRE(all_of(delta, rows, width) == expected);
  }
  std::vector<float> some(rows * width);  // present, recent and new ones in one update
  for (std::size_t i = 0; i < some.size(); i += 5 * width) some[i] = 2;
  add(delta, whole<float>(some), 0.5);
  add(expected, whole<float>(some), width, 0.5);
  CHECK_FALSE(delta.is_dense());
  CHECK(all_of(delta, rows, width) == expected);
  auto const taken = delta.take_keyed();
  CHECK(std::ranges::is_sorted(taken.rows));
  std::vector<float> again(rows * width);
  add(again, keyed(taken.rows, taken.values), width, 1.0);
  CHECK(again == expected);
  CHECK(delta.bytes() == 0);
}

TEST_CASE("version_delta: what was taken may be added again") {
  random_stream random(14);
  delta_type delta(100'000, 1);
  for (std::size_t const count : std::vector<std::size_t>{10, 1'000, 3}) {
    auto const u = scattered_update<float>(100'000, 1, count, random);
    add(delta, u, 1.0);
    auto const before = held_by(delta, 1);
    CHECK(before.size() == count);
    auto const taken = delta.take_keyed();
    delta.add({.keyed = true, .rows = taken.rows, .values = taken.values}, 1.0);
    CHECK(held_by(delta, 1) == before);
    (void)delta.take_keyed();
  }
}

TEMPLATE_TEST_CASE("version_delta: equals a map of rows", "", std::uint32_t, std::uint64_t) {
  bool const bounded = GENERATE(true, false);
  std::uint64_t const rows = GENERATE(as<std::uint64_t>{}, 3'000, 1'000'000);
  std::size_t const width = GENERATE(as<std::size_t>{}, 1, 3);
  std::uint64_t const seed = GENERATE(as<std::uint64_t>{}, 1, 2, 3, 4);
  INFO(rows << " rows of " << width << ", seed " << seed);
  random_stream random(seed);
  version_delta<double, TestType> delta(bounded ? rows : 0, width);
  std::map<std::uint64_t, std::vector<double>> expected;
  for (int i = 0; i < 120 && !delta.is_dense(); ++i) {
    std::size_t const most = random.below(8) == 0 ? 400 : 9;  // few that are large, many small
    bool const near = random.below(2) == 0;                   // again and again the same rows
    auto const u =
        scattered_update<double>(near ? 800 : rows, width, 1 + random.below(most), random);
    double const weight = i % 3 == 0 ? 2.0 : 1.0;
    add(delta, u, weight);
    for (std::size_t k = 0; k < u.rows.size(); ++k) {
      auto& row = expected.try_emplace(u.rows[k], width).first->second;
      for (std::size_t j = 0; j < width; ++j) row[j] += weight * u.values.as<double>()[k * width + j];
    }
    if (bounded) REQUIRE(delta.is_dense() == (2 * expected.size() >= rows));
    if (!delta.is_dense()) REQUIRE(delta.rows() == expected.size());
    if (i % 8 == 0 && !delta.is_dense()) REQUIRE(held_by(delta, width) == expected);
  }
  bool differs = false;
  for (std::uint64_t r = 0; r < rows; r += rows < 10'000 ? 1 : 17) {
    std::vector<double> read(width);
    delta.add_to_row(r, read.data(), 1.0);
    auto const at = expected.find(r);
    differs |= read != (at == expected.end() ? std::vector<double>(width) : at->second);
  }
  CHECK_FALSE(differs);
  if (delta.is_dense()) return;
  auto const taken = delta.take_keyed();
  REQUIRE(taken.rows.size() == expected.size());
  std::size_t k = 0;
  for (auto const& [row, values] : expected) {
    differs |= taken.rows[k] != row;
    differs |= !std::equal(values.begin(), values.end(), taken.values.data() + k * width);
    ++k;
  }
  CHECK_FALSE(differs);
}

TEMPLATE_TEST_CASE("version_delta: equals a plain loop", "", float, double, std::int64_t) {
  random_stream random(11);
  for (std::size_t const width : {std::size_t{1}, std::size_t{3}})
    for (std::uint64_t const rows : {std::uint64_t{1}, std::uint64_t{50}, std::uint64_t{30'000}}) {
      version_delta<TestType, std::uint32_t> delta(rows, width);
      std::vector<TestType> expected(rows * width);
      for (int i = 0; i < 12; ++i) {
        double const weight = i % 2 == 0 ? 1.0 : 2.0;
        auto const u = random_update<TestType>(rows, width, random.below(2) == 0, random);
        add(delta, u, weight);
        add(expected, u, width, weight);
        REQUIRE(all_of(delta, rows, width) == expected);
      }
    }
}

TEST_CASE("version_delta: the layouts differ by rounding at most") {
  random_stream random(12);
  constexpr std::uint64_t rows = 64;
  version_delta<double, std::uint32_t> bounded(rows, 2);
  version_delta<double, std::uint32_t> sparse(0, 2);
  for (int i = 0; i < 40; ++i) {
    std::vector<std::uint64_t> some{random.below(32), 32 + random.below(32)};
    auto const u = keyed<double>(some, {random.uniform(), random.uniform(), random.uniform(), 1e9});
    add(bounded, u, 1.0 / 3.0);
    add(sparse, u, 1.0 / 3.0);
    auto const a = all_of(bounded, rows, 2);
    auto const b = all_of(sparse, rows, 2);
    for (std::size_t k = 0; k < a.size(); ++k) REQUIRE(std::abs(a[k] - b[k]) <= 1e-14 * b[k]);
  }
  CHECK(bounded.is_dense());
}
