// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/visibility.hpp>

#include <catch2/catch.hpp>

#include <cstdint>

using namespace rubato;

namespace {

constexpr clock_index clock_at(std::int64_t value) { return clock_index{value}; }

static_assert(!eager::holds_back && strict::holds_back);

/// Whether another worker's commit with this stamp may be seen.
bool visible(strict window, std::int64_t stamp, std::int64_t c_min, staleness s) {
  return clock_at(stamp) < window.horizon({.c_min = clock_at(c_min), .bound = s});
}

}  // namespace

TEST_CASE("visibility: eager folds every commit as it comes, however far ahead (rules §2, SSP-4)") {
  CHECK(eager{}.horizon({.c_min = clock_at(0), .bound = 0}) == clock_index::highest());
  CHECK(eager{}.horizon({.c_min = clock_at(7), .bound = 3}) == clock_index::highest());
}

TEST_CASE("visibility: strict shows stamp t while t < c_min + s (rules §2, SSP-4; 001 Eq. 2)") {
  CHECK_FALSE(visible({}, 0, 0, 0));
  CHECK(visible({}, 0, 1, 0));
  CHECK_FALSE(visible({}, 1, 1, 0));
  CHECK(visible({}, 2, 0, 3));
  CHECK_FALSE(visible({}, 3, 0, 3));
  CHECK(visible({}, 9, 7, 3));
  CHECK_FALSE(visible({}, 10, 7, 3));
  CHECK(visible({}, 1'000'000, 0, staleness::infinite()));
}

TEST_CASE("visibility: strict holds nothing back once everybody has left") {
  CHECK(strict{}.horizon({.c_min = clock_index::highest(), .bound = 0}) == clock_index::highest());
}

TEST_CASE("visibility: the horizon is at least c_min, and does not fall as c_min grows (SSP-1)") {
  auto const check = [](auto const& p, staleness s) {
    clock_index before = clock_index::lowest();
    for (std::int64_t c = 0; c < 10; ++c) {
      clock_index const h = p.horizon({.c_min = clock_at(c), .bound = s});
      CHECK(h >= clock_at(c));
      CHECK(h >= before);
      before = h;
    }
  };
  for (std::int64_t s = 0; s < 4; ++s) {
    check(strict{}, s);
    check(eager{}, s);
  }
}
