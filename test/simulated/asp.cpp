// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/asp.hpp>

#include "simulated/family.hpp"

using namespace rubato;

TEST_CASE("ASP keeps its rules in random runs", "[simulated][asp]") {
  test::check_family(
      [](std::uint64_t seed) {
        return basic_asp<eager, momentum, every>{.tempo = test::random_pace(seed)};
      },
      [](std::uint64_t) { return testing::eager_rules(staleness::infinite()); });
}
