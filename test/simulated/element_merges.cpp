// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Merges by element in random runs.
#include <catch2/catch.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/async_diloco.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dc_asgd.hpp>
#include <rubato/protocol/diloco.hpp>
#include <rubato/protocol/element_merge.hpp>
#include <rubato/protocol/easgd.hpp>
#include <rubato/protocol/fed_adam.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/slow_mo.hpp>

#include "seeds.hpp"
#include "simulated/family.hpp"

using namespace rubato;

namespace {

/// Calls `f(seed)` for each of 200 seeds.
template <class F>
void for_each_seed(F f) {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    f(seed);
  }
}

rules one_of_barrier(std::uint64_t seed) {
  std::int64_t const steps = 1 + static_cast<std::int64_t>(seed / 4 % 3);
  switch (seed % 4) {
    case 0: return fed_adam{.steps = steps};
    case 1: return with(fed_adam{.steps = steps}, yogi{});
    case 2: return slow_mo{.steps = steps};
    default: return diloco{.steps = steps};
  }
}

rules one_of_unbounded(std::uint64_t seed) {
  std::int64_t const steps = 1 + static_cast<std::int64_t>(seed / 4 % 3);
  switch (seed % 4) {
    case 0: return dc_asgd{.fold = {.lambda = 0.5}};
    case 1: return with(dc_asgd{}, compensate_adaptive{});
    case 2: return easgd{.steps = steps};
    default: return async_diloco{.steps = steps};
  }
}

/// The same as `sum`, but that commits of many rows are not padded with the others.
struct sum_of_rows {
  static constexpr std::size_t slots = 0;
  static constexpr bool lazy = true;
  [[nodiscard]] double weight(commit_info const&) const noexcept { return 1.0; }
  template <std::floating_point T>
  [[nodiscard]] T step(fold_step, T, T u) const noexcept {
    return u;
  }
};

}  // namespace

TEST_CASE("dc_asgd without λ is asp, bit for bit, in random runs", "[simulated][elements]") {
  auto const rules_of_asp = testing::eager_rules(staleness::infinite());
  std::uint64_t as_asp = 0;  // commits of many rows take longer
  for_each_seed([&](std::uint64_t seed) {
    auto const schedule = testing::random_schedule(seed);
    auto const compensated = testing::observed_run(dc_asgd{.fold = {.lambda = 0}}, schedule, rules_of_asp);
    INFO("broken rules:" << test::lines(compensated.violations));
    REQUIRE(compensated.violations.empty());
    REQUIRE(same_run(compensated, testing::observed_run(with(asp{}, sum_of_rows{}), schedule, rules_of_asp)));
    if (same_run(compensated, testing::observed_run(asp{}, schedule, rules_of_asp))) ++as_asp;
  });
  if (test::seed_count(200) >= 100) CHECK(as_asp > test::seed_count(200) * 9 / 10);
}

TEST_CASE("diloco of one worker without momentum at rate 1 is bsp, bit for bit", "[simulated][elements]") {
  auto const rules_of_bsp = testing::strict_rules(0);
  for_each_seed([&](std::uint64_t seed) {
    auto schedule = testing::random_schedule(seed, {.workers_max = 1, .joins = false, .crashes = false});
    schedule.commits_by_hand = false;
    std::int64_t const steps = 1 + static_cast<std::int64_t>(seed % 3);
    diloco const plain{.steps = steps, .optimizer = {.rate = 1, .mu = 0}};
    auto const one = testing::observed_run(plain, schedule, rules_of_bsp);
    INFO("broken rules:" << test::lines(one.violations));
    REQUIRE(one.violations.empty());
    REQUIRE(same_run(one, testing::observed_run(with(bsp{}, every{steps}), schedule, rules_of_bsp)));
  });
}

TEST_CASE("Optimizers behind a barrier: in which order the commits of a clock come changes no bit",
          "[simulated][elements]") {
  std::uint64_t other_times = 0;
  for_each_seed([&](std::uint64_t seed) {
    auto schedule = testing::random_schedule(seed, {.joins = false, .crashes = false});
    schedule.commits_by_hand = false;
    auto other = schedule;  // the same workers on another cluster
    other.scenario = testing::random_schedule(seed + 1'000'000, {.joins = false, .crashes = false}).scenario;
    other.scenario.seed = schedule.scenario.seed;  // by which bodies draw
    other.scenario.speed.slowness.resize(other.scenario.speed.slowness.empty() ? 0 : schedule.workers, 1.0);
    other.scenario.machine_of.clear();
    other.scenario.speed.changes.clear();
    rules const p = one_of_barrier(seed);
    INFO(p.name);
    auto const one = testing::detail::observe_run(p, schedule, testing::strict_rules(0));
    auto const two = testing::detail::observe_run(p, other, testing::strict_rules(0));
    INFO("broken rules:" << test::lines(one.violations) << test::lines(two.violations));
    REQUIRE((one.violations.empty() && two.violations.empty()));
    REQUIRE(one.weights == two.weights);
    if (one.report.elapsed != two.report.elapsed) ++other_times;
  });
  CHECK(other_times > test::seed_count(200) / 2);
}

TEST_CASE("Merges by element keep the rules of their families in random runs, and runs come again",
          "[simulated][elements]") {
  for_each_seed([&](std::uint64_t seed) {
    auto schedule = testing::random_schedule(seed);
    schedule.commits_by_hand = false;
    bool const barred = seed % 2 == 0;
    rules const p = barred ? one_of_barrier(seed / 2) : one_of_unbounded(seed / 2);
    auto const promised = barred ? testing::strict_rules(0) : testing::eager_rules(staleness::infinite());
    INFO(p.name);
    auto const one = testing::detail::observe_run(p, schedule, promised);
    INFO("broken rules:" << test::lines(one.violations));
    REQUIRE(one.violations.empty());
    if (seed % 5 == 0) REQUIRE(same_run(one, testing::detail::observe_run(p, schedule, promised)));
  });
}
