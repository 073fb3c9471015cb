// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Workers that share what their process fetches, and die with it.
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>

#include "simulated/family.hpp"

using namespace rubato;

namespace {

template <class ProtocolOf, class RulesOf>
void check_in_processes(ProtocolOf protocol_of, RulesOf rules_of) {
  test::check_family(protocol_of, rules_of, {.processes = true});
}

}  // namespace

TEST_CASE("SSP keeps its rules where workers share a process", "[simulated][ssp][processes]") {
  check_in_processes(
      [](std::uint64_t seed) {
        return basic_ssp<eager, sum, every>{.staleness = test::random_staleness(seed),
                                            .tempo = test::random_pace(seed)};
      },
      [](std::uint64_t seed) { return testing::eager_rules(test::random_staleness(seed)); });
}

TEST_CASE("strict SSP keeps its rules where workers share a process", "[simulated][ssp][processes]") {
  check_in_processes(
      [](std::uint64_t seed) {
        return basic_ssp<strict, average, every>{.staleness = test::random_staleness(seed),
                                                 .tempo = test::random_pace(seed)};
      },
      [](std::uint64_t seed) { return testing::strict_rules(test::random_staleness(seed)); });
}

TEST_CASE("DynSGD keeps the rules of SSP where workers share a process", "[simulated][dyn_sgd][processes]") {
  check_in_processes(
      [](std::uint64_t seed) {
        return basic_dyn_sgd<eager, revise, every>{.staleness = test::random_staleness(seed),
                                                   .fold = {seed % 2 == 0 ? versions::exact : versions::capped},
                                                   .tempo = test::random_pace(seed)};
      },
      [](std::uint64_t seed) { return testing::eager_rules(test::random_staleness(seed)); });
}

TEST_CASE("stable cuts are each reader's own also where workers share a process",
          "[simulated][stable_cut][processes]") {
  check_in_processes(
      [](std::uint64_t seed) {
        return basic_ssp<stable_cut, sum, every>{.staleness = test::random_staleness(seed),
                                                 .tempo = test::random_pace(seed)};
      },
      [](std::uint64_t seed) { return testing::synchronized_rules(test::random_staleness(seed)); });
}
