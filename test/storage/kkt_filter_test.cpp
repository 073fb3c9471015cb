// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/kkt_filter.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

#include <rubato/core/error.hpp>

using Catch::Contains;
using rubato::kkt_filter;
using rubato::kkt_violation;

TEST_CASE("kkt_violation: the distance from the condition for a positive, a negative and a zero coordinate",
          "[storage]") {
  CHECK(kkt_violation(2, -0.5, 0.5) == 0);  // the optimum has -lambda sign(w)
  CHECK(kkt_violation(-2, 0.5, 0.5) == 0);
  CHECK(kkt_violation(2, 0.5, 0.5) == 1);
  CHECK(kkt_violation(-2, 0.25, 0.5) == 0.25);
  CHECK(kkt_violation(2, 0, 0.5) == 0.5);
  for (double const sign : {-1.0, 1.0}) {
    CHECK(kkt_violation(0, sign * 0.25, 0.5) == 0);
    CHECK(kkt_violation(0, sign * 0.5, 0.5) == 0);
    CHECK(kkt_violation(0, sign * 0.75, 0.5) == 0.25);
  }
}

TEST_CASE("kkt_filter: leaves out zeros whose gradient is below lambda by more than the margin, and no others",
          "[storage]") {
  kkt_filter const filter{.passes = 1, .margin = 0.25};
  for (double const sign : {-1.0, 1.0}) {
    CHECK(filter.leaves_out(0, sign * 0.7, 1, 0));
    CHECK_FALSE(filter.leaves_out(0, sign * 0.75, 1, 0));
    CHECK_FALSE(filter.leaves_out(0, sign * 2, 1, 0));
    CHECK(filter.leaves_out(0, sign * 0.2, 1, 0.5));  // the margin grows by the violation
    CHECK_FALSE(filter.leaves_out(0, sign * 0.25, 1, 0.5));
    CHECK_FALSE(filter.leaves_out(sign * 1e-300, 0, 1, 0));
  }
  double const infinity = std::numeric_limits<double>::infinity(), nothing = std::nan("");
  CHECK_FALSE(filter.leaves_out(0, 0, 1, infinity));
  CHECK_FALSE(filter.leaves_out(0, nothing, 1, 0));
  CHECK_FALSE(filter.leaves_out(nothing, 0, 1, 0));
  CHECK_FALSE(filter.leaves_out(0, 0, 1, nothing));
  CHECK_FALSE(kkt_filter{.passes = 1, .margin = 1}.leaves_out(0, 0, 1, 0));
  CHECK(kkt_filter{}.off());
  CHECK_FALSE(filter.off());
}

TEST_CASE("kkt_filter: options that cannot be meant are refused", "[storage]") {
  CHECK_NOTHROW(kkt_filter{}.check());
  CHECK_NOTHROW((kkt_filter{.passes = std::numeric_limits<std::int64_t>::max(), .margin = 0}.check()));
  CHECK_NOTHROW((kkt_filter{.passes = 1, .margin = 1}.check()));
  CHECK_THROWS_AS((kkt_filter{.passes = -1}.check()), rubato::option_error);
  CHECK_THROWS_WITH((kkt_filter{.passes = -1}.check()), Contains("passes must be at least 0, but is -1"));
  for (double const margin : {-0.1, 1.1, std::nan("")})
    CHECK_THROWS_WITH((kkt_filter{.margin = margin}.check()), Contains("margin must be in [0, 1]"));
}
