// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/con_sgd.hpp>

#include "simulated/family.hpp"

using namespace rubato;

TEST_CASE("ConSGD keeps its rules in random runs", "[simulated][con_sgd]") {
  test::check_family(
      [](std::uint64_t seed) {
        return basic_con_sgd<eager, scale, every>{.staleness = test::random_staleness(seed),
                                                  .tempo = test::random_pace(seed)};
      },
      [](std::uint64_t seed) { return testing::eager_rules(test::random_staleness(seed)); });
}
