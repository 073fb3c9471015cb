// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/setup/edge.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "rubato/core/error.hpp"

using namespace rubato;
using namespace rubato::bench;
using counts = std::vector<std::size_t>;

TEST_CASE("seats are dealt out by largest remainders") {
  CHECK(apportion(std::vector<double>{7, 5, 4, 2}, 18) == counts{7, 5, 4, 2});
  CHECK(apportion(std::vector<double>{7, 5, 4, 2}, 36) == counts{14, 10, 8, 4});
  // Quotas 3.89, 2.78, 2.22 and 1.11.
  CHECK(apportion(std::vector<double>{7, 5, 4, 2}, 10) == counts{4, 3, 2, 1});
  // Quotas 0.39, 0.28, 0.22 and 0.11.
  CHECK(apportion(std::vector<double>{7, 5, 4, 2}, 1) == counts{1, 0, 0, 0});
  CHECK(apportion(std::vector<double>{1, 1, 1}, 4) == counts{2, 1, 1});  // the first of equals
  CHECK(apportion(std::vector<double>{0, 3}, 5) == counts{0, 5});
  CHECK(apportion(std::vector<double>{1, 2}, 0) == counts{0, 0});
}

TEST_CASE("whatever the shares, all seats are dealt out, and none is off by one or more") {
  for (std::size_t seats = 0; seats < 200; ++seats) {
    for (auto const kinds : {ec2_devices(), phones()}) {
      std::vector<double> shares;
      for (device_kind const& k : kinds) shares.push_back(k.share);
      double const sum = std::accumulate(shares.begin(), shares.end(), 0.0);
      counts const dealt = apportion(shares, seats);
      REQUIRE(std::accumulate(dealt.begin(), dealt.end(), std::size_t{0}) == seats);
      for (std::size_t i = 0; i < shares.size(); ++i)
        REQUIRE(std::abs(double(dealt[i]) - shares[i] / sum * double(seats)) < 1);
    }
  }
}

TEST_CASE("shares that cannot be meant are refused") {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  for (std::vector<double> const& bad : {std::vector<double>{},
                                         {0, 0},
                                         {1, -1},
                                         {1, nan},
                                         {1, std::numeric_limits<double>::infinity()}})
    CHECK_THROWS_AS(apportion(bad, 3), option_error);
}

TEST_CASE("the EC2 mix of 18 workers is that of the ADSP paper") {
  std::vector<double> const slowness = edge_mix(ec2_devices(), 18);
  REQUIRE(slowness.size() == 18);
  CHECK(std::ranges::count(slowness, slowness[0]) == 7);
  CHECK(slowness[0] == Approx(74.0 / 18 / 2));  // 2 vCPUs, the mean being 74 / 18
  CHECK(slowness[17] == Approx(74.0 / 18 / 4));
  CHECK(slowness[12] == Approx(74.0 / 18 / 8));
  CHECK(heterogeneity_of(slowness) == Approx(37.0 / 18));  // 2.06
  CHECK(heterogeneity_of(edge_mix(ec2_devices(), 36)) == Approx(37.0 / 18));
}

TEST_CASE("phones are as fast as their scores") {
  std::vector<double> const slowness = edge_mix(phones(), 1000);
  auto const [least, most] = std::ranges::minmax(slowness);
  CHECK(most / least == Approx(11421.0 / 2759));
  CHECK(heterogeneity_of(slowness) == Approx(2.384).margin(0.01));
}

TEST_CASE("heterogeneity is mean speed over least speed") {
  CHECK(heterogeneity_of(std::vector<double>{}) == 1);
  CHECK(heterogeneity_of(std::vector<double>{3, 3, 3}) == Approx(1));
  CHECK(heterogeneity_of(std::vector<double>{1, 0.5}) == Approx(1.5));  // speeds 1 and 2
}

TEST_CASE("slownesses have the heterogeneity asked for, and the cluster's power stays") {
  for (double const h : {1.0, 1.4, 2.06, 3.2, 10.0}) {
    for (std::size_t const workers : {2U, 3U, 18U, 36U}) {
      INFO(workers << " workers, H " << h);
      std::vector<double> const slowness = slowness_for_heterogeneity(workers, h);
      REQUIRE(slowness.size() == workers);
      CHECK(heterogeneity_of(slowness) == Approx(h));
      CHECK(std::ranges::max(slowness) == Approx(h));
      double power = 0;
      for (double const s : slowness) power += 1 / s;
      CHECK(power == Approx(workers));
    }
  }
  CHECK(slowness_for_heterogeneity(1, 1) == std::vector<double>{1});
  CHECK(slowness_for_heterogeneity(0, 1).empty());
  double const nan = std::numeric_limits<double>::quiet_NaN();
  for (double const bad : {0.9, -1.0, nan, std::numeric_limits<double>::infinity()})
    CHECK_THROWS_AS(slowness_for_heterogeneity(5, bad), option_error);
  CHECK_THROWS_AS(slowness_for_heterogeneity(1, 2), option_error);
}
