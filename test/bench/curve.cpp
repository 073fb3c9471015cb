// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/result/curve.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "bench/train/recorder.hpp"

using namespace rubato::bench;

TEST_CASE("the target is reached where the curve comes to it and stays for a clock") {
  std::vector<curve_point> const curve = {{0, 0, 0.7},
                                          {1, 10, 0.3},
                                          {2, 20, 0.4},
                                          {3, 30, 0.3, true, {3, 2, 1}},
                                          {4, 40, 0.2},
                                          {5, 50, 0.3},
                                          {6, 60, 0.9}};
  auto const hit = reaches(curve, 0.3, 20);
  REQUIRE(hit);
  CHECK(hit->seconds == 3);
  CHECK(hit->updates == 30);
  CHECK(hit->spent.share(hit->spent.wait) == Approx(1.0 / 6));
  CHECK(reaches(curve, 0.3, 0)->seconds == 1);     // a clock of no length: the first touch
  CHECK_FALSE(reaches(curve, 0.3, 21));            // not a whole clock below
  CHECK(reaches(curve, 1.0, 1000)->seconds == 0);  // below to the end
  CHECK_FALSE(reaches(curve, 0.1, 20));
  CHECK_FALSE(reaches({}, 0.1, 20));
}

TEST_CASE("a loss that is not a number never reaches a target") {
  std::vector<curve_point> const curve = {{1, 10, std::numeric_limits<double>::quiet_NaN()}};
  CHECK_FALSE(reaches(curve, 1e300, 1));
}

TEST_CASE("min_obj and var_obj are over the last five clocks and nothing else") {
  std::vector<curve_point> curve = {{0, 0, 100, false}, {0, 0, 9, true}};
  for (double const loss : {1., 2., 3., 4., 5.}) {
    curve.push_back({0, 0, loss, true});
    curve.push_back({0, 0, 77, false});  // in the middle of a clock
  }
  auto const [mean, variance] = last_five_clocks(curve);
  CHECK(mean == 3);
  CHECK(variance == 2);
}

TEST_CASE("a run shorter than five clocks has what there is") {
  std::vector<curve_point> const two = {{0, 0, 9, false}, {0, 0, 1, true}, {0, 0, 3, true}};
  CHECK(last_five_clocks(two).min_obj == 2);
  CHECK(last_five_clocks(two).var_obj == 1);
  std::vector<curve_point> const none = {{0, 0, 9, false}, {0, 0, 4, false}};
  CHECK(last_five_clocks(none).min_obj == 4);
  CHECK(std::isnan(last_five_clocks({}).min_obj));
}

TEST_CASE("checkpoints are evenly spread and always at the end of a clock") {
  checkpoints const four_a_clock(30, 50, 200);
  std::vector<std::uint64_t> at;
  for (std::uint64_t k = 1; k <= 8; ++k) at.push_back(four_a_clock.at(k));
  CHECK(at == std::vector<std::uint64_t>{8, 15, 23, 30, 38, 45, 53, 60});
  CHECK(four_a_clock.ends_clock(4));
  CHECK_FALSE(four_a_clock.ends_clock(5));
}

TEST_CASE("there is a checkpoint in each clock at least, and one for each update at most") {
  CHECK(checkpoints(30, 1000, 10).at(1) == 30);
  CHECK(checkpoints(3, 2, 1000).at(1) == 1);
}

TEST_CASE("where looks cost memory there are no more than it has room for") {
  checkpoints const few(10, 1000, 400, 7);
  CHECK(few.at(6) <= 10'000);
  CHECK(few.at(8) > 10'000);
  CHECK(few.at(1) == 1430);  // the end of a clock
  CHECK(few.ends_clock(1));
  CHECK(checkpoints(10, 100, 400, 200).at(1) == 5);  // fewer than were asked for
}
