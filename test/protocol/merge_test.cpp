// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/merge.hpp>

#include <catch2/catch.hpp>

#include <cstdint>

using namespace rubato;

namespace {

static_assert(exact_merge<sum> && !exact_merge<average> && !exact_merge<scale> &&
              !exact_merge<momentum>);
static_assert(!velocity_merge<sum> && !velocity_merge<average> && !velocity_merge<scale> &&
              velocity_merge<momentum>);

commit_info among(std::uint32_t workers) {
  return {.from = worker_id{2},
          .stamp = clock_index{5},
          .c_min = clock_index{4},
          .c_max = clock_index{7},
          .workers = workers};
}

}  // namespace

TEST_CASE("merge: sum takes an update as it is, however many workers there are (rules §4)") {
  CHECK(sum{}.weight(among(1)) == 1.0);
  CHECK(sum{}.weight(among(7)) == 1.0);
}

TEST_CASE("merge: average takes the M-th part of an update (rules §4)") {
  CHECK(average{}.weight(among(1)) == 1.0);
  CHECK(average{}.weight(among(3)) == 1.0 / 3.0);
  CHECK(average{}.weight(among(1000)) == 1.0 / 1000.0);
}

TEST_CASE("merge: scale takes lambda times an update, and 1/M where lambda is not set (rules §4)") {
  CHECK(scale{}.weight(among(4)) == 0.25);
  CHECK(scale{.lambda = 0.7}.weight(among(4)) == 0.7);
  CHECK(scale{.lambda = 0.0}.weight(among(4)) == 0.0);
}

TEST_CASE("merge: momentum weighs by eta, 1/M where it is not set, and decays by mu (003 Eq. 1)") {
  CHECK(momentum{}.weight(among(5)) == 0.2);
  CHECK(momentum{.eta = 0.01}.weight(among(5)) == 0.01);
  CHECK(momentum{}.decay() == 0.9);
  CHECK(momentum{.mu = 0.5}.decay() == 0.5);
}
