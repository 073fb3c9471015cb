// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/dyn_sgd.hpp>

#include "simulated/family.hpp"

using namespace rubato;

namespace {

/// Versions are kept by the exact rule on even seeds, by the capped one on odd ones.
template <visibility_policy Visibility>
auto dyn_sgd_of(std::uint64_t seed) {
  return basic_dyn_sgd<Visibility, revise, every>{
      .staleness = test::random_staleness(seed),
      .fold = {seed % 2 == 0 ? versions::exact : versions::capped},
      .tempo = test::random_pace(seed)};
}

}  // namespace

TEST_CASE("DynSGD keeps the rules of SSP in random runs", "[simulated][dyn_sgd]") {
  test::check_family(dyn_sgd_of<eager>, [](std::uint64_t seed) {
    return testing::eager_rules(test::random_staleness(seed));
  });
}

TEST_CASE("DynSGD with the strict window keeps the rules of SSP in random runs",
          "[simulated][dyn_sgd]") {
  test::check_family(dyn_sgd_of<strict>, [](std::uint64_t seed) {
    return testing::strict_rules(test::random_staleness(seed));
  });
}
