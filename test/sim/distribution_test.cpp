// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/sim/distribution.hpp>

#include <rubato/core/error.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

using namespace rubato;
using sim::distribution;

namespace {

std::vector<double> draws(distribution const& d, std::size_t n = 200'000) {
  random_stream random(21);
  std::vector<double> values(n);
  for (double& v : values) v = d.draw(random);
  return values;
}

double mean(std::vector<double> const& values) {
  double sum = 0;
  for (double const v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double quantile(std::vector<double> values, double q) {
  auto const at =
      values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size()));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::array<double, 4> first_four(distribution const& d) {
  random_stream random(7, 5);
  return {d.draw(random), d.draw(random), d.draw(random), d.draw(random)};
}

}  // namespace

TEST_CASE("distributions have their shape", "[sim][distribution]") {
  SECTION("constant") {
    random_stream random(1);
    CHECK(distribution(sim::constant{3.5}).draw(random) == 3.5);
    CHECK(random == random_stream(1));
    CHECK(distribution().draw(random) == 1.0);
  }
  SECTION("uniform") {
    auto const values = draws(sim::uniform{.low = 2, .high = 6});
    CHECK(mean(values) == Approx(4).epsilon(0.005));
    CHECK(*std::min_element(values.begin(), values.end()) >= 2);
    CHECK(*std::max_element(values.begin(), values.end()) < 6);
  }
  SECTION("exponential") {
    auto const values = draws(sim::exponential{.mean = 3});
    CHECK(mean(values) == Approx(3).epsilon(0.01));
    CHECK(quantile(values, 0.5) == Approx(3 * std::log(2.0)).epsilon(0.015));
  }
  SECTION("lognormal") {
    auto const values = draws(sim::lognormal{.median = 2, .sigma = 0.5});
    CHECK(quantile(values, 0.5) == Approx(2).epsilon(0.01));
    CHECK(mean(values) == Approx(2 * std::exp(0.125)).epsilon(0.01));
  }
  SECTION("pareto") {
    auto const values = draws(sim::pareto{.least = 2, .alpha = 1.5, .cap = 50});
    CHECK(*std::min_element(values.begin(), values.end()) >= 2);
    CHECK(*std::max_element(values.begin(), values.end()) == 50);
    CHECK(quantile(values, 0.5) == Approx(2 * std::pow(2.0, 1 / 1.5)).epsilon(0.01));
  }
}

TEST_CASE("distributions give the same bits under every compiler", "[sim][distribution]") {
  CHECK(first_four(sim::uniform{.low = 0.5, .high = 1.5}) ==
        std::array{0x1.b6046268460f6p-1, 0x1.691f468aa01p+0, 0x1.42de9359c2621p-1,
                   0x1.2e2762e47f4a4p+0});
  CHECK(first_four(sim::exponential{.mean = 3}) ==
        std::array{0x1.515eb92635a51p+0, 0x1.cfae875ef940cp+2, 0x1.adf2a67f8177fp-2,
                   0x1.b5e39c6c095bp+1});
  CHECK(first_four(sim::lognormal{.median = 2, .sigma = 0.5}) ==
        std::array{0x1.c47e8bd50cfd4p+0, 0x1.57f88422db56cp+0, 0x1.680bbbac1fc5cp+1,
                   0x1.f76b54b00e37p+1});
  CHECK(first_four(sim::pareto{.least = 1, .alpha = 1.5, .cap = 50}) ==
        std::array{0x1.571a9a1f97002p+0, 0x1.402e8edf7ac26p+2, 0x1.19092add8c904p+0,
                   0x1.11c2bdec8c4ccp+1});
}

TEST_CASE("bad parameters are named", "[sim][distribution]") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  auto const check = [](distribution const& d) { d.validate("jitter"); };
  CHECK_NOTHROW(check({}));
  CHECK_NOTHROW(check(sim::uniform{.low = 1, .high = 1}));
  CHECK_NOTHROW(check(sim::lognormal{.median = 1, .sigma = 0}));
  CHECK_NOTHROW(check(sim::pareto{}));
  CHECK_THROWS_WITH(check(sim::constant{-1}),
                    "jitter: the value of constant must be finite and not negative, but is -1");
  CHECK_THROWS_WITH(check(sim::uniform{.low = 2, .high = 1}),
                    "jitter: the low of uniform must not exceed its high, but 2 > 1");
  CHECK_THROWS_WITH(check(sim::exponential{.mean = 0}),
                    "jitter: the mean of exponential must be finite and greater than 0, but is 0");
  CHECK_THROWS_AS(check(sim::uniform{.low = nan, .high = 1}), option_error);
  CHECK_THROWS_AS(check(sim::lognormal{.median = 0, .sigma = 1}), option_error);
  CHECK_THROWS_AS(check(sim::lognormal{.median = 1, .sigma = -1}), option_error);
  CHECK_THROWS_AS(check(sim::pareto{.least = 0}), option_error);
  CHECK_THROWS_AS(check(sim::pareto{.alpha = 0}), option_error);
  CHECK_THROWS_AS(check(sim::pareto{.least = 3, .cap = 2}), option_error);
}
