// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/model/heavy_ball.hpp>

#include <catch2/catch.hpp>

#include <limits>
#include <vector>

using rubato::model::heavy_ball;

TEST_CASE("without momentum steps stay as they are", "[model]") {
  heavy_ball<float> m(0, 2);
  for (std::vector<float> const& step : {std::vector<float>{1, 2}, {3, -4}, {0, 0}}) {
    std::vector<float> delta = step;
    m.apply(delta);
    CHECK(delta == step);
  }
}

TEMPLATE_TEST_CASE("momentum adds a share of the step before", "[model]", float, double) {
  heavy_ball<TestType> m(0.5, 2);
  CHECK(m.velocity()[0] == 0);
  std::vector<TestType> delta{8, -1};
  m.apply(delta);
  CHECK(delta == std::vector<TestType>{8, -1});
  delta = {2, 1};
  m.apply(delta);
  CHECK(delta == std::vector<TestType>{6, 0.5});
  delta = {0, 0};
  m.apply(delta);
  CHECK(delta == std::vector<TestType>{3, 0.25});
  CHECK(m.velocity()[1] == 0.25);
}

TEST_CASE("momentum is equation 1 of the ADSP paper", "[model]") {
  // W' = W - eta grad(W) + mu (W - W_before), on the loss 3 W^2 / 2.
  double const eta = 0.1, mu = 0.9;
  double w = 1, before = 1, ours = 1;
  heavy_ball<double> m(mu, 1);
  for (int step = 0; step < 50; ++step) {
    double const next = w - eta * 3 * w + mu * (w - before);
    before = w;
    w = next;
    std::vector<double> delta{-eta * 3 * ours};
    m.apply(delta);
    ours += delta[0];
    REQUIRE(ours == Approx(w).margin(1e-12));
  }
}

TEST_CASE("momentum that cannot be meant, and steps of another size, are refused", "[model]") {
  for (double const bad : {-0.1, 1.0, 1.5, 1 - 1e-12, std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(heavy_ball<float>(bad, 1), rubato::option_error);
  heavy_ball<float> m(0.9, 3);
  std::vector<float> delta(2);
  CHECK_THROWS_AS(m.apply(delta), rubato::usage_error);
}
