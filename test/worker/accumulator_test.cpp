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

double const* find(accumulator const& a, std::uint64_t row) {
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
