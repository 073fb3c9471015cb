// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/testing/schedule.hpp>
#include <rubato/transport/simulated.hpp>

#include "simulated/family.hpp"
#include "simulated/sequential.hpp"

using namespace rubato;

TEST_CASE("BSP computes what a sequential program does, bit for bit", "[simulated][bsp]") {
  for (std::uint64_t i = 0; i < test::seed_count(test::usual_seeds); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const s = testing::random_schedule(seed, {.joins = false, .crashes = false});
    test::job const j = test::random_job(seed, s.workers);
    simulated const where{.workers = s.workers, .servers = s.servers, .scenario = s.scenario};
    basic_bsp<strict, average, every> const bsp{.tempo = {j.steps}};
    basic_ssp<strict, average, every> const ssp{.staleness = 0, .tempo = {j.steps}};
    test::weights const expected = test::sequential(j);
    REQUIRE(test::same_bits(test::distributed(where, bsp, j), expected));
    REQUIRE(test::same_bits(test::distributed(where, ssp, j), expected));
  }
}
