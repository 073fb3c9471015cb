// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "rubato/algorithm/impl/normal_equations.hpp"

using Catch::Matchers::Approx;
using values = std::vector<double>;

TEST_CASE("what fits least squares best is found by sums, and drawn to zero by the regulariser", "[algorithm]") {
  rubato::algorithm::detail::normal_equations line(2, 1e-9);  // v = 3 + 2 t
  for (double const t : {0.0, 1.0, 5.0}) line.add(values{1, t}, 3 + 2 * t);
  CHECK_THAT(line.solution(), Approx(values{3, 2}).margin(1e-6));

  rubato::algorithm::detail::normal_equations drawn(1, 4);  // x = Σ v y / (Σ y² + λ)
  drawn.add(values{1}, 10);
  drawn.add(values{2}, 4);
  CHECK_THAT(drawn.solution(), Approx(values{18.0 / (5 + 4)}));
}

TEST_CASE("of all that fit as well, where the regulariser is lost, the shortest is taken", "[algorithm]") {
  rubato::algorithm::detail::normal_equations sums(2, 1e-9);
  sums.add(values{1e6, 1e6}, 4e6);
  CHECK_THAT(sums.solution(), Approx(values{2, 2}));
}

TEST_CASE("factors that have overflown stay seen", "[algorithm]") {
  rubato::algorithm::detail::normal_equations sums(2, 1);
  sums.add(values{std::numeric_limits<double>::infinity(), 1}, 1);
  auto const x = sums.solution();
  CHECK_FALSE((std::isfinite(x[0]) && std::isfinite(x[1])));
}
