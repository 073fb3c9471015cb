// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/vap.hpp>

#include <catch2/catch.hpp>

#include <limits>

#include <rubato/server/agreement.hpp>
#include <rubato/testing/check_policies.hpp>

using namespace rubato;

namespace {

/// Knows no limit at some clock.
struct unlimited : unbounded {
  double at_all = std::numeric_limits<double>::quiet_NaN();
  [[nodiscard]] double limit(clock_index c) const noexcept { return c.value() < 1 ? 1.0 : at_all; }
};

}  // namespace

TEST_CASE("the limit shrinks as v_0 over the square root of t", "[protocol][vap]") {
  bounded_value const p = vap{.first = 3}.admission();
  CHECK(p.limit(clock_index{0}) == 3);
  CHECK(p.limit(clock_index{3}) == 1.5);
  CHECK(p.limit(clock_index{99}) == Approx(0.3));
}

TEST_CASE("a limit conforms, and one that is no number does not", "[protocol][vap]") {
  CHECK(testing::check_admission(bounded_value{{}, 0.5}).empty());
  CHECK(testing::check_admission(bounded_value{{}, 0}).empty());
  auto const said = testing::check_admission(unlimited{});
  REQUIRE(said.size() == 1);
  CHECK_THAT(said.front(), Catch::Contains("expected 0 or more"));
}

TEST_CASE("processes see whether their limits are alike", "[protocol][vap]") {
  CHECK(fingerprint(admission_rule(bounded_value{{}, 1})) == fingerprint(admission_rule(bounded_value{{}, 1})));
  CHECK(fingerprint(admission_rule(bounded_value{{}, 1})) != fingerprint(admission_rule(bounded_value{{}, 2})));
  CHECK(fingerprint(admission_rule(bounded_value{{}, 1})) != fingerprint(admission_rule(unbounded{})));
}
