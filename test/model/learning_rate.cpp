// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/model/learning_rate.hpp>

#include <catch2/catch.hpp>

namespace rm = rubato::model;
using rubato::clock_index;

static_assert(!rm::learning_rate<double>);

TEST_CASE("a fixed rate does not move", "[model]") {
  rm::fixed_rate const rate{.sigma = 0.3};
  CHECK(rate(clock_index{0}) == 0.3);
  CHECK(rate(clock_index{1'000'000}) == 0.3);
}

TEST_CASE("a decayed rate is sigma / sqrt(alpha c + 1), alpha 0.2 unless told", "[model]") {
  rm::decayed_rate const rate{.sigma = 0.5};
  CHECK(rate(clock_index{0}) == 0.5);
  CHECK(rate(clock_index{15}) == Approx(0.25));
  CHECK(rate(clock_index{40}) == Approx(0.5 / 3));
  CHECK(rm::decayed_rate{.sigma = 1, .alpha = 1}(clock_index{3}) == 0.5);
}
