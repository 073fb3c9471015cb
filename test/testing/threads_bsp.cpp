// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <catch2/catch.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/transport/in_process.hpp>

#include "seeds.hpp"
#include "simulated/sequential.hpp"

using namespace rubato;

TEST_CASE("BSP and SSP(0) on threads compute what a sequential program does",
          "[testing][threads]") {
  for (std::uint64_t i = 0; i < test::seed_count(20); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    test::job const j = test::random_job(seed, 5);
    in_process const where{.workers = 5, .servers = 1 + static_cast<std::uint32_t>(seed % 3)};
    basic_bsp<strict, average, every> const bsp{.tempo = {j.steps}};
    basic_ssp<strict, average, every> const ssp{.staleness = 0, .tempo = {j.steps}};
    test::weights const expected = test::sequential(j);
    REQUIRE(test::same_bits(test::distributed(where, bsp, j), expected));
    REQUIRE(test::same_bits(test::distributed(where, ssp, j), expected));
  }
}
