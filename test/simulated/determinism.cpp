// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <array>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/ssp.hpp>

#include "simulated/family.hpp"

using namespace rubato;

TEST_CASE("The same seed gives the same run, byte for byte", "[simulated]") {
  for (std::uint64_t i = 0; i < test::seed_count(100); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const schedule = testing::random_schedule(seed);
    basic_ssp<strict, average> const p{.staleness = 2};
    auto const one = testing::observed_run(p, schedule, testing::strict_rules(2));
    auto const other = testing::observed_run(p, schedule, testing::strict_rules(2));
    REQUIRE(same_run(one, other));
    REQUIRE(one.report.total().total() == other.report.total().total());
    REQUIRE(one.report.total().staleness == other.report.total().staleness);
  }
}

// A change of these numbers is a change of what every recorded seed does: on purpose, or a bug.
// That they are written down is what makes compilers agree.
TEST_CASE("The order of events is the same on every compiler", "[simulated]") {
  std::array<std::uint64_t, 4> const golden{0x62d5df9e1bf6eb09, 0xfc3384b9253913c7,
                                            0x617f55bbdcc2aaac, 0x6150d2821161aa7a};
  for (std::uint64_t seed = 1; seed <= golden.size(); ++seed) {
    INFO("seed " << seed);
    auto const run = testing::observed_run(
        ssp{.staleness = 1}, testing::random_schedule(seed + 100), testing::eager_rules(1));
    CHECK(run.events == golden[seed - 1]);
  }
}

TEST_CASE("An unreachable bound makes nobody wait", "[simulated][ssp]") {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto schedule = testing::random_schedule(seed);
    for (auto& m : schedule.manners) m.own_staleness = 0;
    auto const none = testing::eager_rules(staleness::infinite());
    auto const ssp_run =
        testing::observed_run(ssp{.staleness = staleness::infinite()}, schedule, none);
    REQUIRE(ssp_run.violations.empty());
    REQUIRE(ssp_run.report.total().wait == duration::zero());
    REQUIRE(testing::observed_run(asp{}, schedule, none).report.total().wait == duration::zero());
  }
}
