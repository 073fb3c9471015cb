// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/vap.hpp"

#include <catch2/catch.hpp>

#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/vap.hpp"

using namespace rubato;
using namespace rubato::bench::aaai15;

namespace {
constexpr unseen_setting usual = {.workers = 6, .clocks = 200, .time = sim::exponential{}, .seed = 5};
}

TEST_CASE("readers find no more unseen than VAP's limit, and the commit that is computed") {
  for (double const first : {0.0, 1.5, 3.0, 6.0}) {
    INFO("v_0 = " << first);
    unseen const u = unseen_of(vap{.first = first}, usual);
    CHECK(u.at_reads <= first + 1e-9);
    CHECK(u.with_own <= first + 1 + 1e-9);
    CHECK(u.with_own >= 1);
  }
}

TEST_CASE("readers find nothing unseen under BSP, and more under ASP than a limit lets pass") {
  unseen const bulk = unseen_of(with(bsp{}, sum{}), usual), free = unseen_of(asp{}, usual);
  CHECK(bulk.at_reads == Approx(0).margin(1e-9));
  CHECK(bulk.with_own == Approx(1));
  CHECK(free.at_reads > 6);
  CHECK(free.waited < 0.01);
  CHECK(bulk.waited > 0.4);
  CHECK(unseen_of(vap{.first = 3}, usual).waited > free.waited + 0.1);
}
