// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/dssp.hpp"

#include <catch2/catch.hpp>

#include "rubato/protocol/asp.hpp"

using namespace rubato;
using namespace rubato::bench::icdcs19;

namespace {

constexpr predicted_staleness three_to_15{3, 15};

void check_alike(waits const& here, waits const& model) {
  CHECK(here.waited == Approx(model.waited).margin(0.02));
  CHECK(here.clocks_a_second == Approx(model.clocks_a_second).epsilon(0.03));
}

}  // namespace

TEST_CASE("servers and workers wait as in the model by our rules") {
  for (auto const& slowness : {std::vector<double>{1, 2.6}, {1, 1, 1, 1}, {1, 1.2, 3}}) {
    wait_setting const how{.slowness = slowness, .clocks = 400};
    check_alike(measured_waits(fetching_dssp(3, 15), how), modelled_waits(three_to_15, {}, how));
    check_alike(measured_waits(fetching_dssp(2, 2), how), modelled_waits({2, 2}, {}, how));
  }
}

TEST_CASE("a bounded staleness holds the fast worker to the slow one's pace, and one without an end does not") {
  wait_setting const how{.clocks = 400};
  waits const here = measured_waits(fetching_dssp(3, 15), how);
  CHECK(here.furthest <= 15);
  CHECK(here.waited == Approx(0.5 * (1 - 1 / 2.6)).margin(0.02));
  waits const both = modelled_waits(three_to_15, {.by_computing = true, .without_end = true}, how);
  CHECK(both.furthest > 15);
  CHECK(both.waited < here.waited);
  CHECK(measured_waits(asp{}, how).waited == Approx(0).margin(1e-6));
}
