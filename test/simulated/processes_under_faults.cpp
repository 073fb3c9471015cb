// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The processes of a run, by the code that runs over TCP, in a network that fails as each seed draws.
#include <catch2/catch.hpp>

#include <cstdint>
#include <string>

#include <rubato/core/rare.hpp>

#include "seeds.hpp"
#include "simulated/under_faults.hpp"

using namespace rubato;

TEST_CASE("runs of several processes keep their rules under faults, and all that seldom happens does",
          "[simulated][processes]") {
  constexpr std::uint64_t usual = 4000;
  std::uint64_t const seeds = test::seed_count(usual);
  std::uint64_t well = 0;
  std::uint64_t harmful = 0;
  for (std::uint64_t i = 0; i < seeds; ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO("repeat with --seed " << seed);
    testing::trial_result const r = test::watched_trial(seed).run();
    if (!r.found.empty()) FAIL(r.text());
    harmful += r.harmful ? 1 : 0;
    well += std::ranges::all_of(r.ends, [](auto const& e) { return e.failure.empty(); }) ? 1 : 0;
  }
  if (seeds < usual) return;
  CHECK(well > seeds / 4);
  CHECK(harmful > seeds / 8);
  for (rare_count const& mark : rare_paths()) {
    if (mark.what.starts_with("peers: ")) continue;  // for peers_under_faults.cpp
    INFO("never reached: " << mark.what);
    CHECK(mark.times != 0);
  }
}

TEST_CASE("a run of several processes under faults is decided by its seed", "[simulated][processes]") {
  for (std::uint64_t seed = test::first_seed(); seed < test::first_seed() + 20; ++seed) {
    testing::trial_result const once = test::watched_trial(seed).run();
    testing::trial_result const again = test::watched_trial(seed).run();
    INFO("seed " << seed);
    CHECK(once.hash == again.hash);
    CHECK(once.events == again.events);
    CHECK(once.story == again.story);
  }
}
