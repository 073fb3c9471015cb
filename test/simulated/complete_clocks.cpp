// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/ssp.hpp>

#include "simulated/family.hpp"

using namespace rubato;

TEST_CASE("SSP that shows complete clocks only keeps its rules in random runs",
          "[simulated][ssp]") {
  test::check_family(
      [](std::uint64_t seed) {
        return basic_ssp<test::complete_clocks, average, every>{
            .staleness = test::random_staleness(seed), .tempo = test::random_pace(seed)};
      },
      [](std::uint64_t seed) { return test::complete_rules(test::random_staleness(seed)); });
}
