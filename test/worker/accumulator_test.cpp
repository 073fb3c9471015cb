// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/accumulator.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <rubato/core/random.hpp>

#include "storage/updates.hpp"

using namespace rubato;

namespace {

using test::values_of;
using doubles = std::vector<double>;

/// The values of a committed update by row; zero where it says nothing.
doubles spread(update const& u, std::size_t rows, std::size_t width) {
  doubles const values = values_of<double>(u);
  if (u.whole) return values;
  doubles all(rows * width);
  for (std::size_t i = 0; i < u.rows.size(); ++i)
    std::copy_n(values.data() + i * width, width,
                all.data() + static_cast<std::size_t>(u.rows[i]) * width);
  return all;
}

void push_whole(accumulator& a, doubles const& values) {
  a.add_whole<double>([&](auto add) {  // in two pieces
    std::size_t const half = values.size() / 2;
    add(half, values.data() + half, values.size() - half);
    add(0, values.data(), half);
  });
}

double const* find(accumulator& a, std::uint64_t row) {
  return reinterpret_cast<double const*>(a.find(row));
}

}  // namespace

TEST_CASE("accumulator: sums what is pushed, row by row and whole, and forgets nothing") {
  constexpr std::size_t rows = 40;
  constexpr std::size_t width = 3;
  accumulator a(rows, width * sizeof(double), {});
  random_stream random(8);
  for (std::int64_t commit = 0; commit < 60; ++commit) {
    doubles expected(rows * width);
    std::vector<bool> pushed(rows);
    std::uint64_t const actions = random.below(50);
    std::uint64_t const whole_at = random.below(3) == 0 ? random.below(50) : 100;
    for (std::uint64_t i = 0; i < actions; ++i) {
      if (i == whole_at) {
        doubles all(rows * width);
        for (double& x : all) x = static_cast<double>(random.below(100));
        push_whole(a, all);
        for (std::size_t e = 0; e < all.size(); ++e) expected[e] += all[e];
        pushed.assign(rows, true);
        continue;
      }
      auto const row = static_cast<std::size_t>(random.below(rows));
      double const values[] = {1.0, static_cast<double>(i), -2.0};
      a.add_row(row, values);
      for (std::size_t j = 0; j < width; ++j) expected[row * width + j] += values[j];
      pushed[row] = true;
    }
    INFO("commit " << commit);
    REQUIRE(a.empty() == (actions == 0));
    for (std::size_t r = 0; r < rows; ++r)
      if (double const* const found = find(a, r)) {
        REQUIRE(std::equal(found, found + width, expected.data() + r * width));
      } else {
        REQUIRE_FALSE(pushed[r]);
      }
    auto const u = a.take();
    REQUIRE(spread(*u, rows, width) == expected);
    REQUIRE(a.empty());
    REQUIRE(a.find(0) == nullptr);
  }
}

TEST_CASE("accumulator: holds only the rows that were pushed, until half of them are there") {
  accumulator a(100, sizeof(double), {});
  double const one = 1.0;
  for (std::uint64_t row = 0; row < 40; ++row) a.add_row(row * 2, &one);
  CHECK_FALSE(a.current()->whole);
  CHECK(a.current()->rows.size() == 40);
  CHECK(a.find(1) == nullptr);
  for (std::uint64_t row = 0; row < 40; ++row) a.add_row(row * 2 + 1, &one);
  CHECK(a.current()->whole);
  CHECK(a.current()->values.as<double>().size() == 100);
}

TEST_CASE("accumulator: where it may not pad, it holds only the rows that were pushed, until all are at once") {
  accumulator a(100, sizeof(double), {}, false);
  doubles const ones(100, 1.0);
  for (std::uint64_t row = 0; row < 99; ++row) a.add_row(row, &ones[0]);
  CHECK_FALSE(a.current()->whole);
  CHECK(a.current()->rows.size() == 99);
  CHECK(a.find(99) == nullptr);
  push_whole(a, ones);
  CHECK(a.current()->whole);
  CHECK(*find(a, 98) == 2);
  CHECK(*find(a, 99) == 1);
}

TEST_CASE("accumulator: rows that are appended are found, and added to, like others") {
  constexpr std::size_t rows = 40;
  accumulator a(rows, sizeof(double), {});
  CHECK(a.may_start(19));
  CHECK_FALSE(a.may_start(20));
  double const one = 1.0, two = 2.0;
  bool const at_once = GENERATE(false, true);
  if (at_once) {
    std::vector<double> const ones(3, one);
    a.append_rows(std::vector<std::uint64_t>{3, 7, 30}, ones.data());
  } else {
    for (std::uint64_t const row : {3U, 7U, 30U}) a.append_row(row, &one);
  }
  CHECK_FALSE(a.may_start(1));
  CHECK(a.current()->rows == std::vector<std::uint64_t>{3, 7, 30});
  SECTION("added to") {
    a.add_row(7, &two);
    a.add_row(8, &two);
    CHECK(*find(a, 7) == 3.0);
    CHECK(*find(a, 8) == 2.0);
    CHECK(a.current()->rows.size() == 4);
  }
  SECTION("found") {
    CHECK(*find(a, 30) == 1.0);
    CHECK(find(a, 4) == nullptr);
  }
  SECTION("found once they are committed") {
    auto const committed = a.take_indexed(clock_index{0});
    CHECK(committed.find(3, sizeof(double)) != nullptr);
    CHECK(committed.find(4, sizeof(double)) == nullptr);
    a.append_row(4, &one);
    CHECK(find(a, 3) == nullptr);
  }
  SECTION("found with the means of an update before") {
    auto committed = a.take_indexed(clock_index{0});
    a.append_row(4, &one);
    a.reuse(std::move(committed));
    REQUIRE(find(a, 4) != nullptr);
    CHECK(*find(a, 4) == 1.0);
    CHECK(find(a, 3) == nullptr);
  }
  SECTION("where a filter looks at them") {
    double const small = 1e-9;
    a.append_row(31, &small);
    auto const committed =
        a.take_indexed<double>(clock_index{0}, {.threshold = 1e-6, .small = small_entries::carry});
    CHECK(committed.part->rows == std::vector<std::uint64_t>{3, 7, 30});
    CHECK(committed.find(30, sizeof(double)) != nullptr);
    CHECK(*find(a, 31) == small);
    CHECK(find(a, 3) == nullptr);
  }
  SECTION("under a whole push") {
    push_whole(a, doubles(rows, 1.0));
    CHECK(*find(a, 7) == 2.0);
    CHECK(*find(a, 8) == 1.0);
  }
}

TEST_CASE("accumulator: never becomes whole where any key may occur") {
  accumulator a(0, sizeof(double), {});
  double const one = 1.0;
  for (std::uint64_t row = 0; row < 5000; ++row) a.add_row(row << 40, &one);
  CHECK_FALSE(a.current()->whole);
  CHECK(a.current()->rows.size() == 5000);
  CHECK(*find(a, std::uint64_t{4999} << 40) == 1.0);
}

TEST_CASE("accumulator: a committed update stays as it is while new pushes come") {
  accumulator a(4, sizeof(double), {});
  push_whole(a, {1, 2, 3, 4});
  auto const first = a.take();
  double const ten = 10.0;
  a.add_row(2, &ten);
  auto const second = a.take();
  push_whole(a, {5, 5, 5, 5});
  CHECK(spread(*first, 4, 1) == doubles{1, 2, 3, 4});
  CHECK(spread(*second, 4, 1) == doubles{0, 0, 10, 0});
}

TEST_CASE("accumulator: what nobody pushed to is committed as an empty update") {
  accumulator a(4, sizeof(double), {});
  auto const u = a.take();
  CHECK(u.empty());
  CHECK(u->empty());
  CHECK(u->bytes() == 0);
}
