// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/synthetic_digits.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <rubato/core/error.hpp>

#include "data/hash.hpp"

namespace rd = rubato::data;
using rubato::test::hash;

TEST_CASE("synthetic digits are images of ten classes", "[data][synthetic]") {
  rd::dataset const data = rd::make_synthetic_digits({.rows = 5000, .side = 14});
  CHECK(data.size() == 5000);
  CHECK(data.features() == 14 * 14);
  for (int digit = 0; digit < 10; ++digit)
    CHECK(std::ranges::count(data.labels(), float(digit)) == Approx(500).margin(90));
  for (rd::example const row : data.rows()) {
    REQUIRE(row.label >= 0);
    REQUIRE(row.label < 10);
    for (float const v : row.values) REQUIRE((v > 0 && v <= 1));
  }
  double const share = double(data.nonzeros()) / double(data.size() * data.features());
  CHECK(share > 0.2);  // sparse, as MNIST is
  CHECK(share < 0.6);
}

TEST_CASE("synthetic digits are the same bytes on every compiler", "[data][synthetic]") {
  // A change here changes every recorded experiment: say so in the changelog.
  CHECK(hash(rd::make_synthetic_digits({.rows = 200})) == 0x61efbe2b00c69444U);
  CHECK(hash(rd::make_synthetic_digits({.rows = 200, .side = 16, .noise = 0, .seed = 2})) ==
        0xa857c716604ddaedU);
}

TEST_CASE("the seed decides about synthetic digits", "[data][synthetic]") {
  auto const of = [](std::uint64_t seed) {
    return hash(rd::make_synthetic_digits({.rows = 50, .seed = seed}));
  };
  CHECK(of(1) == of(1));
  CHECK(of(1) != of(2));
}

TEST_CASE("without any variation all images of a digit are one", "[data][synthetic]") {
  rd::dataset const data = rd::make_synthetic_digits(
      {.rows = 100, .shift = 0, .distortion = 0, .noise = 0, .faintest = 1});
  std::vector<std::vector<float>> seen(10);
  for (rd::example const row : data.rows()) {
    auto& first = seen[std::size_t(row.label)];
    std::vector<float> const values(row.values.begin(), row.values.end());
    if (first.empty()) first = values;
    CHECK(values == first);
  }
  std::ranges::sort(seen);
  CHECK(std::ranges::adjacent_find(seen) == seen.end());
}

TEST_CASE("digit options out of range are refused by name", "[data][synthetic]") {
  using options = rd::digits_options;
  CHECK_THROWS_MATCHES(rd::make_synthetic_digits({.side = 7}), rubato::option_error,
                       Catch::Message("digits_options: side is 7, expected 8 to 64"));
  double const nan = std::numeric_limits<double>::quiet_NaN();
  for (options const& bad :
       {options{.rows = 0}, options{.rows = std::size_t{1} << 32}, options{.side = 65},
        options{.shift = -0.1}, options{.shift = 0.6}, options{.shift = nan},
        options{.distortion = -1}, options{.distortion = 1}, options{.noise = -0.1},
        options{.noise = 1.1}, options{.faintest = 0}, options{.faintest = 2}}) {
    CHECK_THROWS_AS(rd::make_synthetic_digits(bad), rubato::option_error);
  }
}
