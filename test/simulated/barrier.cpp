// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/ssp.hpp>

#include "simulated/family.hpp"

using namespace rubato;

namespace {

auto const bsp_of = [](std::uint64_t seed) {
  return basic_bsp<strict, average, every>{.tempo = test::random_pace(seed)};
};
auto const ssp_of = [](std::uint64_t seed) {
  return basic_ssp<strict, average, every>{.staleness = 0, .tempo = test::random_pace(seed)};
};
auto const rules_of = [](std::uint64_t) { return testing::strict_rules(0); };

}  // namespace

TEST_CASE("BSP keeps its rules in random runs", "[simulated][bsp]") {
  test::check_family(bsp_of, rules_of);
}

TEST_CASE("SSP(0) with the strict window and BSP's merge is BSP bit for bit", "[simulated][bsp]") {
  for (std::uint64_t i = 0; i < test::seed_count(test::usual_seeds); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const schedule = testing::random_schedule(seed);
    auto const one = testing::observed_run(bsp_of(seed), schedule, rules_of(seed));
    auto const other = testing::observed_run(ssp_of(seed), schedule, rules_of(seed));
    INFO("broken rules:" << test::lines(other.violations));
    REQUIRE(other.violations.empty());
    REQUIRE(same_run(one, other));
  }
}
