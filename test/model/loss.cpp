// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/model/loss.hpp>

#include <catch2/catch.hpp>

#include <cmath>

namespace rm = rubato::model;

namespace {

struct squared_hinge {  // the least that the concept asks for
  double value(double m) const noexcept { return m < 1 ? (1 - m) * (1 - m) : 0; }
  double slope(double m) const noexcept { return m < 1 ? -2 * (1 - m) : 0; }
};
struct without_slope {
  double value(double) const noexcept;
};
struct may_throw {
  double value(double) const;
  double slope(double) const;
};
struct in_float {
  float value(double) const noexcept;
  float slope(double) const noexcept;
};
static_assert(rm::linear_loss<squared_hinge>);
static_assert(!rm::linear_loss<without_slope>);
static_assert(!rm::linear_loss<may_throw>);
static_assert(!rm::linear_loss<in_float>);
static_assert(!rm::residual_loss<squared_hinge>);
static_assert(!rm::linear_loss<rm::epsilon_insensitive_loss>);
static_assert(rm::row_loss<squared_hinge> && rm::row_loss<rm::epsilon_insensitive_loss>);

}  // namespace

TEST_CASE("the log-loss neither overflows nor loses its tail", "[model]") {
  rm::logistic_loss const loss;
  CHECK(loss.value(0) == Approx(std::log(2.0)).epsilon(1e-15));
  CHECK(loss.slope(0) == -0.5);
  CHECK(loss.value(-1e4) == 1e4);
  CHECK(loss.value(1e4) == 0);
  CHECK(loss.slope(-1e4) == -1);
  CHECK(loss.slope(1e4) == 0);
  CHECK(loss.value(-1e300) == 1e300);
  CHECK(loss.value(50) == Approx(std::exp(-50.0)).epsilon(1e-12));
  CHECK(loss.slope(50) == Approx(-std::exp(-50.0)).epsilon(1e-12));
  CHECK(loss.slope(-50) == -1);
}

TEST_CASE("the hinge costs nothing from margin 1 on", "[model]") {
  rm::hinge_loss const loss;
  CHECK(loss.value(-1e4) == 1e4 + 1);
  CHECK(loss.value(0.25) == 0.75);
  CHECK(loss.value(1) == 0);
  CHECK(loss.value(1e4) == 0);
  CHECK(loss.slope(0.25) == -1);
  CHECK(loss.slope(1) == 0);
  CHECK(loss.slope(1e4) == 0);
}

TEMPLATE_TEST_CASE("slopes are the derivatives of the values", "[model]", rm::logistic_loss,
                   rm::hinge_loss) {
  TestType const loss;
  double const h = 1e-6;
  for (double m = -30.05; m < 30; m += 0.1) {
    REQUIRE(loss.slope(m) ==
            Approx((loss.value(m + h) - loss.value(m - h)) / (2 * h)).margin(1e-7));
    REQUIRE(loss.value(m) >= 0);
    REQUIRE(loss.slope(m) <= 0);
  }
}

TEST_CASE("errors within epsilon cost nothing", "[model]") {
  rm::epsilon_insensitive_loss const loss{.epsilon = 0.5};
  CHECK(loss.value(0) == 0);
  CHECK(loss.value(0.5) == 0);
  CHECK(loss.value(-0.5) == 0);
  CHECK(loss.value(0.75) == 0.25);
  CHECK(loss.value(-1e4) == 1e4 - 0.5);
  CHECK(loss.slope(0.5) == 0);
  CHECK(loss.slope(-0.5) == 0);
  CHECK(loss.slope(0.6) == 1);
  CHECK(loss.slope(-0.6) == -1);
  double const h = 1e-6;
  for (double r = -30.05; r < 30; r += 0.1)
    REQUIRE(loss.slope(r) ==
            Approx((loss.value(r + h) - loss.value(r - h)) / (2 * h)).margin(1e-7));
}
