// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/update_filter.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/worker/accumulator.hpp>

#include "at.hpp"
#include "seeds.hpp"
#include "storage/updates.hpp"
#include "worker/filters.hpp"

using namespace rubato;
using namespace rubato::test::filters;
using test::at;
using test::values_of;

namespace {

template <class T = double>
void push_row(accumulator& a, std::uint64_t row, std::vector<T> const& values) {
  a.add_row(row, values.data());
}

template <class T = double>
void push_whole(accumulator& a, std::vector<T> const& values) {
  a.add_whole<T>([&](auto add) { add(0, values.data(), values.size()); });
}

/// The values of an update by row; zero where it says nothing.
template <class T>
std::vector<T> spread(update const* u, std::size_t rows, std::size_t width) {
  std::vector<T> all(rows * width);
  if (u == nullptr) return all;
  std::vector<T> const values = values_of<T>(*u);
  if (u->whole) return values;
  for (std::size_t i = 0; i < u->rows.size(); ++i)
    std::copy_n(values.data() + i * width, width,
                all.data() + static_cast<std::size_t>(u->rows[i]) * width);
  return all;
}

template <class T = double>
std::vector<T> row_of(std::byte const* row, std::size_t width) {
  REQUIRE(row != nullptr);
  auto const* const from = reinterpret_cast<T const*>(row);
  return {from, from + width};
}

}  // namespace

TEST_CASE("update_filter: is off unless it is asked for, and refuses what is no threshold") {
  CHECK(update_filter{}.off());
  CHECK(dense<float>{}.filter.off());
  CHECK(sparse<float>{}.filter.off());
  CHECK_FALSE(dropping.off());
  CHECK_NOTHROW(update_filter{}.check());
  CHECK_NOTHROW(dropping.check());
  double const infinity = std::numeric_limits<double>::infinity();
  for (double const bad : {-1e-6, infinity, -infinity, std::nan("")}) {
    INFO(bad);
    CHECK_THROWS_AS(update_filter{.threshold = bad}.check(), option_error);
  }
  CHECK_THROWS_WITH(update_filter{.threshold = -1}.check(),
                    Catch::Matchers::StartsWith("filter: threshold must be"));
}

TEST_CASE("update_filter: without a threshold the pushed buffer itself is sent") {
  for (bool const whole : {false, true}) {
    accumulator a(4, sizeof(double), {});
    if (whole) push_whole(a, {0, 1e-300, 0, 0});
    else push_row(a, 2, {0.0});
    update const* const pushed = a.current();
    std::byte const* const values = pushed->values.data();
    doubles const before = values_of<double>(*pushed);
    auto const sent = a.take<double>(update_filter{});
    CHECK(sent.get() == pushed);
    CHECK(sent->values.data() == values);
    CHECK(values_of<double>(*sent) == before);
    CHECK(sent->whole == whole);
    CHECK(a.empty());
    push_row(a, 3, {0.0});
    update const* const next = a.current();
    auto const indexed = a.take_indexed<double>(at(5), update_filter{});
    CHECK(indexed.part.get() == next);
    CHECK(indexed.stamp == at(5));
    CHECK(row_of(indexed.find(3, sizeof(double)), 1) == doubles{0});
  }
}

TEST_CASE("update_filter: keyed rows without a large entry vanish, and small entries beside large "
          "ones become zero") {
  accumulator a(100, 2 * sizeof(double), {});
  push_row(a, 70, {0.125, -0.125});
  push_row(a, 30, {0.125, 4});
  push_row(a, 50, {0, 0});
  push_row(a, 10, {-2, 1});
  push_row(a, 20, {0.125, 0});
  auto const sent = a.take<double>(dropping);
  CHECK_FALSE(sent->whole);
  CHECK(sent->rows == numbers{30, 10});
  CHECK(values_of<double>(*sent) == doubles{0, 4, -2, 1});
  CHECK(a.empty());
  CHECK(a.find(70) == nullptr);
}

TEST_CASE("update_filter: a whole update that may not pad becomes keyed once a row of it is not sent") {
  for (bool const may_pad : {true, false}) {
    accumulator a(4, 2 * sizeof(double), {}, may_pad);
    for (double const last : {0.125, 4.0}) {
      doubles const all{1, 0, 2, 0, 3, 0, last, 0};
      a.add_whole<double>([&](auto add) { add(0, all.data(), all.size()); });
      auto const sent = a.take<double>(dropping);
      CHECK(sent->whole == (may_pad || last == 4));
      CHECK(values_of<double>(*sent).size() == (sent->whole ? 8 : 6));
    }
  }
}

TEST_CASE("update_filter: an entry at the threshold is sent, one just below is not, whatever its "
          "sign") {
  double const below = std::nextafter(0.25, 0.0);
  accumulator a(100, 4 * sizeof(double), {});
  push_row(a, 1, {0.25, below, -0.25, -below});
  push_row(a, 2, {below, below, below, below});
  auto const sent = a.take<double>(dropping);
  CHECK(sent->rows == numbers{1});
  CHECK(values_of<double>(*sent) == doubles{0.25, 0, -0.25, 0});
}

TEST_CASE("update_filter: looks at the sum of the pushes, not at each of them") {
  accumulator a(100, sizeof(double), {});
  push_row(a, 1, {0.125});
  push_row(a, 1, {0.125});
  push_row(a, 2, {8.0});
  push_row(a, 2, {-8.0});
  auto const sent = a.take<double>(dropping);
  CHECK(sent->rows == numbers{1});
  CHECK(values_of<double>(*sent) == doubles{0.25});
}

TEST_CASE("update_filter: what is not a number is always sent, and so is infinity") {
  double const nan = std::nan("");
  double const infinity = std::numeric_limits<double>::infinity();
  for (auto const& filter : {dropping, carrying}) {
    accumulator a(100, 2 * sizeof(double), {});
    push_row(a, 1, {nan, 0.125});
    push_row(a, 2, {0, -infinity});
    auto const sent = a.take<double>(filter);
    REQUIRE(sent->rows == numbers{1, 2});
    CHECK(std::isnan(values_of<double>(*sent)[0]));
    CHECK(values_of<double>(*sent)[1] == 0);
    CHECK(values_of<double>(*sent)[3] == -infinity);
    accumulator b(2, sizeof(double), {});
    push_whole(b, {nan, 0.125});
    auto const whole = b.take<double>(filter);
    REQUIRE(whole->whole);
    CHECK(std::isnan(values_of<double>(*whole)[0]));
    CHECK(values_of<double>(*whole)[1] == 0);
  }
}

TEST_CASE("update_filter: a whole update that takes fewer bytes whole remains whole, and in place") {
  accumulator a(3, 2 * sizeof(double), {});
  push_whole(a, {1, 0.125, 0.125, 0.125, -0.125, -2});  // 48 bytes: 2 rows of 8 + 16
  update const* const pushed = a.current();
  auto const sent = a.take<double>(dropping);
  CHECK(sent.get() == pushed);
  CHECK(sent->whole);
  CHECK(sent->rows.empty());
  CHECK(values_of<double>(*sent) == doubles{1, 0, 0, 0, 0, -2});
}

TEST_CASE("update_filter: a whole update in which fewer rows stay becomes keyed") {
  for (bool const recycled : {false, true}) {
    accumulator a(5, 2 * sizeof(double), {});
    if (recycled) {  // the pool's buffers have been whole ones and keyed ones
      for (int i = 0; i < 3; ++i) push_whole(a, doubles(10, 9.0)), (void)a.take<double>(carrying);
      push_row(a, 3, {9, 9});
      (void)a.take();
    }
    push_whole(a, {0.125, 0, 1, 0.125, 0.125, 0.125, 0, -2, 0, 0});
    auto const sent = a.take<double>(dropping);
    CHECK_FALSE(sent->whole);
    CHECK(sent->rows == numbers{1, 3});
    CHECK(values_of<double>(*sent) == doubles{1, 0, 0, -2});
    CHECK(a.empty());
    push_whole(a, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
    CHECK(values_of<double>(*a.take<double>(dropping)) == doubles(10, 1.0));
  }
}

TEST_CASE("update_filter: nothing is committed where all is small") {
  for (bool const whole : {false, true}) {
    accumulator a(40, sizeof(double), {});
    auto const push = [&] {
      if (whole) push_whole(a, doubles(40, 0.125));
      else push_row(a, 6, {0.125}), push_row(a, 7, {0.125});
    };
    push();
    CHECK(a.take<double>(dropping)->empty());
    CHECK(a.empty());
    push();
    auto const indexed = a.take_indexed<double>(at(0), dropping);
    CHECK(indexed.part->empty());
    CHECK(indexed.find(7, sizeof(double)) == nullptr);
    CHECK(a.empty());
    push();
    CHECK(a.take<double>(carrying)->empty());
    CHECK_FALSE(a.empty());
    CHECK(row_of(a.find(7), 1) == doubles{0.125});
    CHECK(a.current()->whole == whole);
  }
}

TEST_CASE("update_filter: carried entries start the next commit, and are sent once they have "
          "grown") {
  accumulator a(100, 2 * sizeof(double), {});
  push_row(a, 5, {0.125, 1});
  push_row(a, 6, {0, 2});
  push_row(a, 7, {-0.125, 0.0625});
  auto const first = a.take<double>(carrying);
  CHECK(first->rows == numbers{5, 6});
  CHECK(values_of<double>(*first) == doubles{0, 1, 0, 2});
  CHECK(a.current()->rows == numbers{5, 7});  // zeros are not carried
  CHECK(row_of(a.find(5), 2) == doubles{0.125, 0});
  CHECK(row_of(a.find(7), 2) == doubles{-0.125, 0.0625});
  CHECK(a.find(6) == nullptr);
  push_row(a, 5, {0.125, 0});
  push_row(a, 8, {0.125, 0});
  auto const second = a.take_indexed<double>(at(1), carrying);
  CHECK(second.part->rows == numbers{5});
  CHECK(values_of<double>(*second.part) == doubles{0.25, 0});
  CHECK(values_of<double>(*first) == doubles{0, 1, 0, 2});  // as committed
  push_row(a, 7, {-0.125, 0});
  auto const third = a.take<double>(carrying);
  CHECK(third->rows == numbers{7});
  CHECK(values_of<double>(*third) == doubles{-0.25, 0});
  auto const rest = a.take();
  CHECK(spread<double>(&*rest, 100, 2)[7 * 2 + 1] == 0.0625);
  CHECK(spread<double>(&*rest, 100, 2)[8 * 2] == 0.125);
  CHECK(a.empty());
}

TEST_CASE("update_filter: whole updates are carried whole or keyed, by how many rows there are") {
  accumulator a(4, sizeof(double), {});
  push_whole(a, {1, 0.125, 2, 4});
  auto const first = a.take<double>(carrying);
  CHECK(first->whole);
  CHECK(values_of<double>(*first) == doubles{1, 0, 2, 4});
  REQUIRE(a.current() != nullptr);
  CHECK(a.current()->rows == numbers{1});
  push_whole(a, {0.125, 0.125, 0.125, 0.0625});
  auto const second = a.take<double>(carrying);
  CHECK(second->rows == numbers{1});
  CHECK(values_of<double>(*second) == doubles{0.25});
  REQUIRE(a.current() != nullptr);
  CHECK(a.current()->whole);
  CHECK(values_of<double>(*a.current()) == doubles{0.125, 0, 0.125, 0.0625});
  push_row(a, 0, {0.125});
  CHECK(spread<double>(&*a.take<double>(carrying), 4, 1) == doubles{0.25, 0, 0, 0});
  CHECK(spread<double>(&*a.take(), 4, 1) == doubles{0, 0, 0.125, 0.0625});
}

TEST_CASE("update_filter: rows are found in a committed update from which others have vanished") {
  for (auto const& filter : {dropping, carrying}) {
    for (bool const whole : {false, true}) {
      accumulator a(100, 2 * sizeof(double), {});
      if (whole) push_whole(a, doubles(200));
      for (std::uint64_t row = 0; row < 40; ++row) {
        auto const x = static_cast<double>(row);
        push_row(a, row * 2, {row % 3 == 0 ? x + 1 : 0.125, 0.0625});
      }
      auto const sent = a.take_indexed<double>(at(3), filter);
      CHECK_FALSE(sent.part->whole);
      CHECK(sent.part->rows.size() == 14);
      REQUIRE(sent.slots);
      CHECK(sent.slots->size() == 14);
      for (std::uint64_t row = 0; row < 80; ++row) {
        INFO(row);
        std::byte const* const found = sent.find(row, 2 * sizeof(double));
        REQUIRE((found != nullptr) == (row % 6 == 0));
        if (found == nullptr) continue;
        CHECK(row_of(found, 2) == doubles{static_cast<double>(row / 2) + 1, 0});
      }
      CHECK(a.empty() == (filter.small == small_entries::drop));
    }
  }
}

TEST_CASE("update_filter: the index stays as it is where all rows stay") {
  accumulator a(100, sizeof(double), {});
  for (std::uint64_t row = 9; row > 0; --row) push_row(a, row, {1.0});
  update const* const pushed = a.current();
  auto const sent = a.take_indexed<double>(at(0), dropping);
  CHECK(sent.part.get() == pushed);
  for (std::uint64_t row = 1; row < 10; ++row)
    CHECK(sent.find(row, sizeof(double)) ==
          sent.part->values.data() + (9 - row) * sizeof(double));
}

TEMPLATE_TEST_CASE("update_filter: counts are compared by their size, too", "", std::int32_t,
                   std::int64_t) {
  auto const least = std::numeric_limits<TestType>::min();
  accumulator a(100, 2 * sizeof(TestType), {});
  push_row<TestType>(a, 1, {2, 3});
  push_row<TestType>(a, 2, {-2, 0});
  push_row<TestType>(a, 3, {0, least});
  auto const sent = a.take<TestType>({.threshold = 3, .small = small_entries::carry});
  CHECK(sent->rows == numbers{1, 3});
  CHECK(values_of<TestType>(*sent) == std::vector<TestType>{0, 3, 0, least});
  CHECK(row_of<TestType>(a.find(1), 2) == std::vector<TestType>{2, 0});
  CHECK(row_of<TestType>(a.find(2), 2) == std::vector<TestType>{-2, 0});
  auto const ones = a.take<TestType>({.threshold = 1});  // takes zeros away, no more
  CHECK(ones->rows == numbers{1, 2});
  CHECK(values_of<TestType>(*ones) == std::vector<TestType>{2, 0, -2, 0});
}

TEMPLATE_TEST_CASE("update_filter: sends, carries and drops what a model does, and carrying loses "
                   "nothing", "", float, double) {
  using values = std::vector<TestType>;
  for (std::uint64_t i = 0; i < test::seed_count(60); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    random_stream random(seed);
    std::size_t const rows = 1 + static_cast<std::size_t>(random.below(60));
    std::size_t const width = 1 + static_cast<std::size_t>(random.below(3));
    bool const open = random.below(3) == 0;
    bool const carry = random.below(3) != 0;
    update_filter const filter{.threshold = std::ldexp(static_cast<TestType>(random.below(300)), -10),
                               .small = carry ? small_entries::carry : small_entries::drop};
    accumulator a(open ? 0 : rows, width * sizeof(TestType), {});
    auto const draw = [&](std::size_t n) {
      values drawn(n);
      std::uint64_t const size = 1 + random.below(300);
      for (TestType& x : drawn)
        if (random.below(3) != 0)
          x = static_cast<TestType>(std::ldexp(
              static_cast<TestType>(random.below(2 * size)) - static_cast<TestType>(size), -10));
      return drawn;
    };
    values pushed(rows * width);
    values sent(rows * width);
    values left(rows * width);  // by the model
    for (std::int64_t stamp = 0; stamp < 40; ++stamp) {
      auto const add = [&](std::size_t first, values const& delta) {
        for (std::size_t e = 0; e < delta.size(); ++e) {
          pushed[first + e] += delta[e];
          left[first + e] += delta[e];
        }
      };
      for (std::uint64_t n = random.below(rows + 3); n != 0; --n) {
        if (!open && random.below(2 * rows) == 0) {
          values const all = draw(rows * width);
          add(0, all);
          push_whole(a, all);
        } else {
          auto const row = static_cast<std::size_t>(random.below(rows));
          values const some = draw(width);
          add(row * width, some);
          push_row(a, row, some);
        }
      }
      values expected(rows * width);
      for (std::size_t e = 0; e < left.size(); ++e) {
        if (std::abs(left[e]) >= static_cast<TestType>(filter.limit())) {
          expected[e] = std::exchange(left[e], TestType{});
        } else if (!carry) {
          left[e] = TestType{};
        }
      }
      shared_update u;
      if (random.below(2) == 0) {
        u = a.take<TestType>(filter);
      } else {
        auto committed = a.take_indexed<TestType>(at(stamp), filter);
        u = committed.part;
        for (std::size_t r = 0; r < rows && !u->empty(); ++r)
          if (auto const* found = committed.find(r, width * sizeof(TestType)))
            REQUIRE(std::ranges::equal(row_of<TestType>(found, width),
                                       std::span(expected).subspan(r * width, width)));
          else
            REQUIRE(std::all_of(expected.data() + r * width, expected.data() + (r + 1) * width,
                                [](TestType x) { return x == TestType{}; }));
      }
      REQUIRE(spread<TestType>(&*u, rows, width) == expected);
      REQUIRE(spread<TestType>(a.current(), rows, width) == left);
      if (!filter.off()) {
        std::size_t const held = u->whole ? rows : u->rows.size();
        std::size_t large = 0;
        for (std::size_t r = 0; r < rows; ++r)
          large += std::any_of(expected.data() + r * width, expected.data() + (r + 1) * width,
                               [](TestType x) { return x != TestType{}; });
        std::size_t const row_bytes = width * sizeof(TestType);
        if (u->whole) REQUIRE(large * (row_bytes + 8) >= rows * row_bytes);
        else REQUIRE(held == large);
      }
      for (std::size_t r = 0; r < rows; ++r)
        if (auto const* found = a.find(r))
          REQUIRE(std::ranges::equal(row_of<TestType>(found, width),
                                     std::span(left).subspan(r * width, width)));
      for (std::size_t e = 0; e < sent.size(); ++e) sent[e] += expected[e];
    }
    if (carry)
      for (std::size_t e = 0; e < sent.size(); ++e) REQUIRE(sent[e] + left[e] == pushed[e]);
  }
}

TEST_CASE("update_filter: the largest entries, as a threshold") {
  auto const limit = [](double share, doubles const& entries) {
    return update_filter{.largest = share}.narrowed(std::span<double const>(entries)).limit();
  };
  CHECK_FALSE(update_filter{.largest = 0.5}.off());
  CHECK(limit(0.25, {1, -4, 2, 3}) == 4);
  CHECK(limit(0.5, {1, -4, 2, 3}) == 3);
  CHECK(limit(0.51, {1, -4, 2, 3}) == 2);
  CHECK(limit(0.001, {1, -4, 2, 3}) == 4);  // one at least
  CHECK(limit(1, {1, -4, 2, 3}) == 0);
  CHECK(limit(0.5, {0, 0, 0, 3}) > 0);  // zeros are not sent
  CHECK(limit(0.25, {std::numeric_limits<double>::quiet_NaN(), 1, 2, 3}) == std::numeric_limits<double>::infinity());
  doubles const small{0.1, 0.2};
  CHECK(update_filter{.threshold = 0.5, .largest = 0.5}.narrowed(std::span<double const>(small)).limit() == 0.5);
  for (double const bad : {0.0, -0.5, 1.5, std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(update_filter{.largest = bad}.check(), option_error);
}

TEST_CASE("accumulator: the largest entries are sent, and the others wait until they are among these") {
  constexpr update_filter largest{.largest = 0.25, .small = small_entries::carry};
  accumulator a(8, sizeof(double), update_pool{});
  push_whole(a, doubles{1, 2, 3, 4, 5, 6, 7, 8});
  auto const first = a.take<double>(largest);
  CHECK(spread<double>(first.get(), 8, 1) == doubles{0, 0, 0, 0, 0, 0, 7, 8});
  CHECK(first->rows == numbers{6, 7});  // with their numbers they are shorter
  CHECK(spread<double>(a.current(), 8, 1) == doubles{1, 2, 3, 4, 5, 6, 0, 0});
  push_whole(a, doubles{9, 0, 0, 0, 0, 0, 1, 1});
  CHECK(spread<double>(a.take<double>(largest).get(), 8, 1) == doubles{10, 0, 0, 0, 0, 6, 0, 0});
  for (int i = 0; i < 3; ++i) (void)a.take<double>(largest);
  CHECK(a.take<double>(largest).empty());  // all has gone, and no zeros follow
}
