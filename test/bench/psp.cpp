// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/psp.hpp"

#include <catch2/catch.hpp>

#include <cstdint>
#include <vector>

#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/psp.hpp"

using namespace rubato;
using namespace rubato::bench::psp17;

namespace {

constexpr progress_setting few = {.workers = 20, .seconds = 400, .seed = 3};

std::vector<std::int64_t> steps_with(std::uint32_t count, std::int64_t s = 0) {
  return progress_of(psp{.staleness = s, .sample = count, .of = few.workers, .seed = few.seed}, few);
}

}  // namespace

TEST_CASE("with a sample of nobody workers come as far as under ASP, with one of all others as under BSP") {
  auto const free = progress_of(asp{}, few), bulk = progress_of(bsp{}, few);
  CHECK(steps_with(0) == free);
  CHECK(steps_with(few.workers - 1) == bulk);
  CHECK(spread_of(free).median == Approx(200).epsilon(0.05));
  CHECK(bulk.back() - bulk.front() <= 1);
}

TEST_CASE("servers and workers come as far as a model by the same rule, and less far than one that draws anew") {
  for (std::uint32_t const count : {1U, 4U, 10U}) {
    INFO(count << " of the others");
    double const here = spread_of(steps_with(count)).median;
    CHECK(here == Approx(spread_of(modelled_progress(0, count, 0, few)).median).epsilon(0.1));
    CHECK(here < spread_of(modelled_progress(0, count, 0.1, few)).median);
  }
  CHECK(modelled_progress(0, 0, 0, few) == modelled_progress(0, 0, 1, few));
}

TEST_CASE("slow workers come less far, and hold up who waits for all") {
  progress_setting slowed = few;
  slowed.slow = 0.1;
  auto const free = progress_of(asp{}, slowed);
  CHECK(static_cast<double>(free.front()) < 0.35 * static_cast<double>(free.back()));
  CHECK(progress_of(bsp{}, slowed).back() <= free[1] + 1);
}

TEST_CASE("a spread is between the fifth and the ninety-fifth of a hundred") {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i <= 100; ++i) all.push_back(i);
  CHECK(spread_of(all).median == 50);
  CHECK(spread_of(all).fifth == 5);
  CHECK(spread_of(all).width() == 90);
}
