// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>

#include "simulated/family.hpp"

using namespace rubato;

namespace {

auto const cut_rules_of = [](std::uint64_t seed) {
  return testing::synchronized_rules(test::random_staleness(seed));
};

}  // namespace

TEST_CASE("DynSGD with stable cuts reads the same commits on all servers in random runs",
          "[simulated][stable_cut][dyn_sgd]") {
  test::check_family(
      [](std::uint64_t seed) {
        return basic_dyn_sgd<stable_cut, revise, every>{
            .staleness = test::random_staleness(seed),
            .fold = {seed % 2 == 0 ? versions::exact : versions::capped},
            .tempo = test::random_pace(seed)};
      },
      cut_rules_of);
}

TEST_CASE("SSP with stable cuts reads the same commits on all servers in random runs",
          "[simulated][stable_cut][ssp]") {
  test::check_family(
      [](std::uint64_t seed) {
        return basic_ssp<stable_cut, average, every>{.staleness = test::random_staleness(seed),
                                                     .tempo = test::random_pace(seed)};
      },
      cut_rules_of);
}

TEST_CASE("ASP with stable cuts reads the same commits on all servers in random runs",
          "[simulated][stable_cut][asp]") {
  test::check_family(
      [](std::uint64_t seed) {
        return basic_asp<stable_cut, sum, every>{.tempo = test::random_pace(seed)};
      },
      [](std::uint64_t) { return testing::synchronized_rules(staleness::infinite()); });
}
