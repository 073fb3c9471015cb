// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/synthetic_chiller.hpp>

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

namespace {

double correlation_with_label(rd::dataset const& data, rd::chiller_feature f) {
  double mean = 0, sum = 0, squares = 0;
  for (float const y : data.labels()) mean += double(y) / double(data.size());
  for (rd::example const row : data.rows()) {
    double const off = double(row.label) - mean;
    sum += off * double(row.values[std::size_t(f)]);
    squares += off * off;
  }
  return sum / std::sqrt(squares * double(data.size()));
}

}  // namespace

TEST_CASE("chiller data has a row for each chiller and day, with standardised features",
          "[data][synthetic]") {
  rd::dataset const data = rd::make_synthetic_chiller();
  CHECK(data.size() == 5 * 1461);
  CHECK(data.features() == rd::chiller_features + 5);
  for (std::size_t f = 0; f < rd::chiller_features; ++f) {
    INFO(f);
    double mean = 0, squares = 0;
    for (rd::example const row : data.rows()) {
      mean += double(row.values[f]) / double(data.size());
      squares += double(row.values[f]) * double(row.values[f]) / double(data.size());
    }
    bool const constant = f == std::size_t(rd::chiller_feature::constant);
    CHECK(mean == Approx(constant ? 1 : 0).margin(1e-5));
    CHECK(squares == Approx(1).epsilon(1e-4));
  }
  for (std::size_t i = 0; i < data.size(); ++i)
    REQUIRE(data[i].indices.back() == rd::chiller_features + i % 5);
}

TEST_CASE("chillers are as efficient as chillers are, and the less so the hotter and older",
          "[data][synthetic]") {
  rd::dataset const data = rd::make_synthetic_chiller();
  auto const [least, most] = std::ranges::minmax(data.labels());
  CHECK(least > 1);
  CHECK(most < 10);
  double mean = 0;
  for (float const y : data.labels()) mean += double(y) / double(data.size());
  CHECK(mean > 3);
  CHECK(mean < 6);
  CHECK(correlation_with_label(data, rd::chiller_feature::outdoor_temperature) < -0.3);
  CHECK(correlation_with_label(data, rd::chiller_feature::age) < -0.1);
  CHECK(correlation_with_label(data, rd::chiller_feature::electricity) < -0.3);
}

TEST_CASE("chillers of any age cool", "[data][synthetic]") {
  rd::dataset const data = rd::make_synthetic_chiller({.chillers = 1, .days = 40'000, .noise = 0});  // 109 years
  CHECK(*std::ranges::min_element(data.labels()) > 0.1F);
}

TEST_CASE("chiller data is the same bytes on every compiler", "[data][synthetic]") {
  // A change here changes every recorded experiment: say so in the changelog.
  CHECK(hash(rd::make_synthetic_chiller({.days = 100})) == 0x7d55275d718bc6b5U);
  CHECK(hash(rd::make_synthetic_chiller({.chillers = 2, .days = 50, .noise = 0, .seed = 2})) ==
        0x5184c508f404602dU);
}

TEST_CASE("the seed decides about chiller data, and noise moves the labels alone",
          "[data][synthetic]") {
  auto const of = [](double noise, std::uint64_t seed) {
    return rd::make_synthetic_chiller({.days = 20, .noise = noise, .seed = seed});
  };
  CHECK(hash(of(0.1, 1)) == hash(of(0.1, 1)));
  CHECK(hash(of(0.1, 1)) != hash(of(0.1, 2)));
  rd::dataset const clean = of(0, 1), noisy = of(1, 1);
  for (std::size_t i = 0; i < clean.size(); ++i) {
    CHECK(std::ranges::equal(clean[i].values, noisy[i].values));
    CHECK(clean[i].label != noisy[i].label);
  }
}

TEST_CASE("chiller data of one row is well-formed", "[data][synthetic]") {
  rd::dataset const data = rd::make_synthetic_chiller({.chillers = 1, .days = 1});
  REQUIRE(data.size() == 1);
  for (float const v : data[0].values) CHECK((v == 0 || v == 1));
}

TEST_CASE("chiller options out of range are refused by name", "[data][synthetic]") {
  using options = rd::chiller_options;
  CHECK_THROWS_MATCHES(rd::make_synthetic_chiller({.days = 0}), rubato::option_error,
                       Catch::Message("chiller_options: days is 0, expected 1 to 10^6"));
  double const nan = std::numeric_limits<double>::quiet_NaN();
  for (options const& bad :
       {options{.chillers = 0}, options{.chillers = 1001}, options{.days = 1'000'001},
        options{.noise = -1}, options{.noise = 11}, options{.noise = nan}})
    CHECK_THROWS_AS(rd::make_synthetic_chiller(bad), rubato::option_error);
}
