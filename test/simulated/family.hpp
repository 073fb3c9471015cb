// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <rubato/testing/observed_run.hpp>
#include <string>

#include "seeds.hpp"

namespace rubato::test {

/// The seeds that each family of protocols runs by default.
inline constexpr std::uint64_t usual_seeds = 600;

/// Visibility that a user might write: commits are seen once all workers have made theirs.
struct complete_clocks {
  static constexpr bool holds_back = true;
  [[nodiscard]] constexpr clock_index horizon(fold_window const& w) const noexcept {
    return w.c_min;
  }
};
static_assert(visibility_policy<complete_clocks>);

[[nodiscard]] inline testing::expectations complete_rules(staleness s) {
  return {.bound = s,
          .newest = [](clock_index c) { return c; },
          .holds_back = true,
          .barrier = s == staleness{0}};
}

[[nodiscard]] inline std::string lines(std::vector<std::string> const& sentences) {
  std::string all;
  for (auto const& s : sentences) all += "\n  " + s;
  return all;
}

/// 0 … 5 clocks, or infinite.
[[nodiscard]] inline staleness random_staleness(std::uint64_t seed) {
  auto const s = static_cast<std::int64_t>(random_stream(seed, 0x57a1e).below(7));
  return s == 6 ? staleness::infinite() : staleness(s);
}

/// Local steps in a clock where the pace decides.
[[nodiscard]] inline every random_pace(std::uint64_t seed) {
  return {1 + static_cast<std::int64_t>(random_stream(seed, 0x9ace).below(3))};
}

/// Runs `protocol_of(seed)` on random schedules and requires that the rules hold in each.
template <class ProtocolOf, class RulesOf>
void check_family(ProtocolOf protocol_of, RulesOf rules_of,
                  testing::schedule_limits const& limits = {}) {
  std::uint64_t commits = 0;
  for (std::uint64_t i = 0; i < seed_count(usual_seeds); ++i) {
    std::uint64_t const seed = first_seed() + i;
    INFO(test::repeat_by(seed));
    testing::outcome const run = testing::observed_run(
        protocol_of(seed), testing::random_schedule(seed, limits), rules_of(seed));
    INFO("broken rules:" << lines(run.violations));
    REQUIRE(run.violations.empty());
    commits += run.report.updates;
  }
  // Schedules that do nothing would prove nothing.
  if (seed_count(usual_seeds) >= 100) CHECK(commits > 20 * seed_count(usual_seeds));
}

}  // namespace rubato::test
