// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/synthetic.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include <rubato/core/error.hpp>

#include "data/hash.hpp"

namespace rd = rubato::data;
using rubato::test::hash;

namespace {

/// How often each feature occurs, most frequent first.
std::vector<std::size_t> popularity(rd::dataset const& data) {
  std::vector<std::size_t> count(data.features());
  for (rd::example const row : data.rows()) {
    for (std::uint32_t const index : row.indices) ++count[index];
  }
  std::ranges::sort(count, std::greater<>());
  return count;
}

double share_of_top_percent(rd::dataset const& data) {
  auto const count = popularity(data);
  auto const top = count.begin() + static_cast<std::ptrdiff_t>(count.size() / 100);
  return double(std::accumulate(count.begin(), top, std::size_t{0})) / double(data.nonzeros());
}

double positive_share(rd::dataset const& data) {
  return double(std::ranges::count(data.labels(), 1.0F)) / double(data.size());
}

}  // namespace

TEST_CASE("synthetic data has the sizes asked for", "[data][synthetic]") {
  rd::dataset const data =
      rd::make_synthetic({.rows = 700, .features = 300, .nonzeros_per_row = 20});
  CHECK(data.size() == 700);
  CHECK(data.features() == 300);
  CHECK(data.nonzeros() == 700 * 20);
  for (rd::example const row : data.rows()) {
    REQUIRE((row.label == 1 || row.label == -1));
    REQUIRE(row.indices.size() == 20);
    REQUIRE(std::ranges::adjacent_find(row.indices, std::greater_equal<>()) == row.indices.end());
    REQUIRE(row.indices.back() < 300);
    double norm2 = 0;
    for (float const x : row.values) norm2 += double(x) * double(x);
    REQUIRE(norm2 == Approx(1));
  }
}

TEST_CASE("synthetic data is the same bytes on every compiler", "[data][synthetic]") {
  // A change here changes every recorded experiment: say so in the changelog.
  CHECK(hash(rd::make_synthetic({.rows = 500})) == 0x269b49b617c8c5eU);
  CHECK(hash(rd::make_synthetic({.rows = 500, .exponent = 1.5, .seed = 2})) == 0x5f782e9fb9a24789U);
  CHECK(hash(rd::make_synthetic(rd::synthetic_options::url_like(0.001))) == 0xa8a1b9a4387b232cU);
  CHECK(hash(rd::make_synthetic(rd::synthetic_options::ctr_like(0.00001))) == 0xb9ba947a830f8c5aU);
}

TEST_CASE("the seed decides about synthetic data", "[data][synthetic]") {
  rd::synthetic_options const one{.rows = 100, .seed = 1};
  rd::synthetic_options const two{.rows = 100, .seed = 2};
  CHECK(hash(rd::make_synthetic(one)) == hash(rd::make_synthetic(one)));
  CHECK(hash(rd::make_synthetic(one)) != hash(rd::make_synthetic(two)));
}

TEST_CASE("few features carry a large share, the more so the steeper the law",
          "[data][synthetic]") {
  auto const share = [](double exponent) {
    return share_of_top_percent(
        rd::make_synthetic({.rows = 2000, .nonzeros_per_row = 50, .exponent = exponent}));
  };
  CHECK(share(0) < 0.03);
  CHECK(share(1) > 0.35);
  CHECK(share(1.5) > 0.65);
  CHECK(share(0.5) > share(0));
  CHECK(share(1) > share(0.5));
}

TEST_CASE("frequencies fall off with the exponent asked for", "[data][synthetic][numeric]") {
  // One value per row: nothing is drawn again, so the law itself shows.
  double const exponent = GENERATE(0.8, 1.0, 1.2);
  auto const count = popularity(rd::make_synthetic({.rows = 400'000,
                                                    .features = 1000,
                                                    .nonzeros_per_row = 1,
                                                    .exponent = exponent,
                                                    .contrast = 0}));
  auto const between = [&](std::size_t from, std::size_t to) {
    return double(std::accumulate(count.begin() + std::ptrdiff_t(from),
                                  count.begin() + std::ptrdiff_t(to), std::size_t{0})) /
           double(to - from);
  };
  // Mean frequencies around ranks 15 and 150, a decade apart.
  double const measured = std::log10(between(10, 20) / between(100, 200));
  CHECK(measured == Approx(exponent).margin(0.05));
}

TEST_CASE("popular features are spread over the index range", "[data][synthetic]") {
  rd::dataset const data = rd::make_synthetic({.rows = 2000, .features = 4000});
  std::vector<double> quarter(4);
  for (rd::example const row : data.rows()) {
    for (std::uint32_t const index : row.indices) quarter[index / 1000] += 1;
  }
  for (double const share : quarter) CHECK(share / double(data.nonzeros()) > 0.15);
}

TEST_CASE("labels have the share of positives and the noise asked for", "[data][synthetic][numeric]") {
  auto const share = [](double positives, double noise) {
    return positive_share(
        rd::make_synthetic({.rows = 20'000, .positive_share = positives, .label_noise = noise}));
  };
  CHECK(share(0.5, 0) == Approx(0.5).margin(0.001));
  CHECK(share(0.1, 0) == Approx(0.1).margin(0.001));
  CHECK(share(0.1, 0.2) == Approx(0.1 * 0.8 + 0.9 * 0.2).margin(0.01));

  rd::dataset const clean = rd::make_synthetic({.rows = 20'000, .label_noise = 0});
  rd::dataset const noisy = rd::make_synthetic({.rows = 20'000, .label_noise = 0.1});
  std::size_t flipped = 0;
  for (std::size_t i = 0; i < clean.size(); ++i) flipped += clean[i].label != noisy[i].label;
  CHECK(double(flipped) / 20'000 == Approx(0.1).margin(0.01));
}

TEST_CASE("values are equal in one-hot data and vary otherwise", "[data][synthetic]") {
  auto const spread = [](bool binary) {
    rd::dataset const data = rd::make_synthetic({.rows = 100, .binary_values = binary});
    auto const [least, most] = std::ranges::minmax(data[7].values);
    return most / least;
  };
  CHECK(spread(true) == 1);
  CHECK(spread(false) > 1.5F);
  CHECK(spread(false) <= 3.001F);
}

TEST_CASE("presets have the papers' shape at their scale", "[data][synthetic]") {
  auto const url = rd::synthetic_options::url_like(1);
  CHECK(url.rows == 2'400'000);
  CHECK(url.features == 3'200'000);
  CHECK(url.nonzeros_per_row == 500);
  auto const ctr = rd::synthetic_options::ctr_like(1, 9);
  CHECK(ctr.rows == 300'000'000);
  CHECK(ctr.features == 58'000'000);
  CHECK(ctr.nonzeros_per_row == 100);
  CHECK(ctr.seed == 9);

  rd::dataset const data = rd::make_synthetic(rd::synthetic_options::url_like(0.001));
  CHECK(data.size() == 2'400);
  CHECK(data.features() == 3'200);
  CHECK(data.nonzeros() == 2'400 * 500);
  CHECK(share_of_top_percent(rd::make_synthetic(rd::synthetic_options::ctr_like(0.0001))) > 0.2);
  CHECK(rd::make_synthetic(rd::synthetic_options::url_like(1e-9)).size() == 1);
  for (double const bad : {0.0, -1.0, 1.5, std::nan("")}) {
    CHECK_THROWS_AS(rd::synthetic_options::url_like(bad), rubato::option_error);
  }
}

TEST_CASE("the corners of the option space give data", "[data][synthetic]") {
  for (double const exponent : {0.0, 1.0, 4.0}) {
    for (std::size_t const features : {1U, 2U, 3U, 64U, 101U}) {
      rd::dataset const data = rd::make_synthetic({.rows = 20,
                                                   .features = features,
                                                   .nonzeros_per_row = features,
                                                   .exponent = exponent,
                                                   .informative = 1});
      REQUIRE(data.nonzeros() == 20 * features);
    }
  }
}

TEST_CASE("options out of range are refused by name", "[data][synthetic]") {
  using options = rd::synthetic_options;
  CHECK_THROWS_MATCHES(
      rd::make_synthetic({.rows = 5, .features = 3, .nonzeros_per_row = 4}), rubato::option_error,
      Catch::Message(
          "synthetic_options: nonzeros_per_row is 4, expected 1 to the number of features"));
  double const nan = std::numeric_limits<double>::quiet_NaN();
  for (options const& bad :
       {options{.rows = 0}, options{.features = 0}, options{.nonzeros_per_row = 0},
        options{.rows = std::size_t{1} << 32}, options{.features = std::size_t{1} << 32},
        options{.exponent = -1}, options{.exponent = 5}, options{.exponent = nan},
        options{.informative = 0}, options{.informative = 2}, options{.contrast = -0.1},
        options{.contrast = 1.1}, options{.positive_share = 0}, options{.positive_share = 1},
        options{.label_noise = -0.1}, options{.label_noise = 0.6}}) {
    CHECK_THROWS_AS(rd::make_synthetic(bad), rubato::option_error);
  }
}
