// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/clock.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <limits>

#include <rubato/core/error.hpp>

using rubato::clock_index;
using rubato::staleness;

namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
constexpr clock_index highest = clock_index::highest();
constexpr clock_index lowest = clock_index::lowest();

constexpr clock_index at(std::int64_t value) { return clock_index{value}; }

// The arithmetic is usable at compile time.
static_assert(at(5) - staleness{3} == at(2) && at(5) + staleness{3} == at(8));
static_assert(at(1) - staleness{3} == at(-2));

}  // namespace

TEST_CASE("clock_index: 'never' and 'any' stay what they are, whatever is added or taken") {
  CHECK(highest.next() == highest);
  CHECK(highest + staleness{1} == highest);
  CHECK(highest - staleness{1} == highest);
  CHECK(lowest - staleness{1} == lowest);
  CHECK(lowest + staleness{1} == lowest);
  CHECK(lowest.next() == at(least + 1));
}

TEST_CASE("clock_index: what runs over the range stops at its ends") {
  CHECK(at(most - 1) + staleness{1} == highest);
  CHECK(at(most - 1) + staleness{2} == highest);
  CHECK(at(most - 3) + staleness{2} == at(most - 1));
  CHECK(at(most - 1).next() == highest);
  CHECK(at(least + 1) - staleness{1} == lowest);
  CHECK(at(least + 1) - staleness{2} == lowest);
  CHECK(at(least + 3) - staleness{2} == at(least + 1));
  CHECK(at(-2) - staleness{most - 1} == at(least + 0));
  CHECK(at(2) + staleness{most - 1} == highest);
}

TEST_CASE("clock_index: an infinite staleness reaches any clock") {
  CHECK(at(0) - staleness::infinite() == lowest);
  CHECK(highest - staleness::infinite() == lowest);
  CHECK(at(0) + staleness::infinite() == highest);
  CHECK(lowest + staleness::infinite() == highest);
}

TEST_CASE("clock_index: ordered as numbers are, and `next` is one more") {
  CHECK(lowest < at(-1));
  CHECK(at(-1) < at(0));
  CHECK(at(0) < highest);
  CHECK(at(41).next() == at(42));
  CHECK(clock_index{} == at(0));
  CHECK(rubato::distance(at(3), at(7)) == 4);
  CHECK(rubato::distance(at(7), at(3)) == -4);
}

TEST_CASE("staleness: a negative one is an option_error that says what is allowed") {
  CHECK_THROWS_AS(staleness{-1}, rubato::option_error);
  CHECK_THROWS_AS(staleness{least}, rubato::option_error);
  try {
    (void)staleness{-1};
    FAIL("no exception");
  } catch (rubato::error const& e) {
    CHECK(e.code() == rubato::errc::bad_option);
    CHECK_THAT(e.what(), Catch::Contains("staleness") && Catch::Contains("0 or more"));
  }
}

TEST_CASE("staleness: 0 is the least, infinite the greatest") {
  CHECK(staleness{}.clocks() == 0);
  CHECK(staleness{0} == staleness{});
  CHECK(staleness{3} < staleness{4});
  CHECK(staleness{1'000'000} < staleness::infinite());
  CHECK(staleness::infinite().is_infinite());
  CHECK_FALSE(staleness{1'000'000}.is_infinite());
}
