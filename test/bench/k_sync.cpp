// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/k_sync.hpp"

#include <catch2/catch.hpp>

#include <array>

#include "rubato/sim/distribution.hpp"

using namespace rubato;
using namespace rubato::bench;
using namespace rubato::bench::aistats18;

namespace {
constexpr std::array all_ways = {waiting::k_sync, waiting::k_batch_sync, waiting::k_async, waiting::k_batch_async};
}

TEST_CASE("a version's time is that of the K-th of P exponential ones, or K/P where nobody waits") {
  CHECK(harmonic(4) == Approx(25.0 / 12));
  CHECK(expected_time(waiting::k_sync, 4, 4) == Approx(25.0 / 12));
  CHECK(expected_time(waiting::k_async, 1, 4) == Approx(0.25));
  CHECK(expected_time(waiting::k_batch_async, 2, 4) == Approx(0.5));
}

TEST_CASE("the model by the paper's rules has the paper's times") {
  for (waiting const how : all_ways)
    for (std::uint32_t const k : {1U, 2U, 4U}) {
      INFO(static_cast<int>(how) << " with K = " << k);
      CHECK(modelled_time(how, k, 4, rules_of_paper, 40'000, 1) == Approx(expected_time(how, k, 4)).epsilon(0.03));
    }
}

TEST_CASE("servers and workers take the time of the model by our rules") {
  for (waiting const how : all_ways)
    for (std::uint32_t const k : {1U, 2U, 4U}) {
      INFO(static_cast<int>(how) << " with K = " << k);
      double const model = modelled_time(how, k, 4, rules_of_ours, 40'000, 1);
      CHECK(measured_time(protocol_of(how, k), 4, sim::exponential{}, 4'000, 1) == Approx(model).epsilon(0.06));
    }
}

TEST_CASE("where all take the same time, so does a version of all") {
  for (waiting const how : {waiting::k_sync, waiting::k_async})
    CHECK(measured_time(protocol_of(how, 4), 4, sim::constant{}, 100, 1) == Approx(1));
}
