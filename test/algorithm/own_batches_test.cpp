// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/algorithm/own_batches.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>

using rubato::algorithm::own_batches;

TEST_CASE("own_batches: an n-th of what a worker owns is in each of n batches, which are all of it") {
  for (std::size_t n = 1; n <= 1000; ++n) {
    own_batches const mine(10'000, 1, 3, 1.0 / static_cast<double>(n));
    REQUIRE(mine.batches() == n);
    std::size_t next = mine.all().first;
    for (std::size_t i = 0; i < n; ++i) {
      REQUIRE(mine.at_step(static_cast<std::int64_t>(i)).first == next);
      next = mine.at_step(static_cast<std::int64_t>(i)).last;
    }
    REQUIRE(next == mine.all().last);
  }
}

TEST_CASE("own_batches: no batch is empty, however small its share, but where a worker owns nothing") {
  CHECK(own_batches(5, 0, 1, 1e-300).batches() == 5);
  CHECK(own_batches(5, 0, 1, 0.3).batches() == 4);
  CHECK(own_batches(2, 2, 3, 0.1).batches() == 1);
  CHECK(own_batches(2, 2, 3, 0.1).at_step(7).size() == 0);
}
