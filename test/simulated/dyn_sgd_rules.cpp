// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <chrono>
#include <rubato/protocol/bsp.hpp>

#include "simulated/dyn_sgd_family.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

constexpr every by_hand{.steps = std::int64_t{1} << 62};

template <bool bounded>
void check_in_step() {
  std::uint64_t reads = 0;
  for (std::uint64_t i = 0; i < test::seed_count(test::usual_seeds); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const plan = test::random_commit_plan(seed);
    auto const versions = test::run_commits<bounded>(
        [](test::commit_book& book) {
          return basic_dyn_sgd<strict, test::told, every>{
              .staleness = 0, .fold = {.inner = {}, .book = &book}, .tempo = by_hand};
        },
        plan, {.bound = 0}, true);
    auto const means = test::run_commits<bounded>(
        [](test::commit_book&) { return basic_bsp<strict, average, every>{.tempo = by_hand}; },
        plan, {.bound = 0, .versioned = false}, true);
    INFO("broken rules:" << test::lines(versions.violations) << test::lines(means.violations));
    REQUIRE(versions.violations.empty());
    REQUIRE(means.violations.empty());
    REQUIRE(versions.report.elapsed == means.report.elapsed);
    REQUIRE(versions.values.size() == means.values.size());
    REQUIRE(std::ranges::equal(versions.values, means.values,
                               [](double a, double b) { return std::abs(a - b) < 1e-12; }));
    reads += versions.reads;
  }
  if (test::seed_count(test::usual_seeds) >= 100)
    CHECK(reads > 20 * test::seed_count(test::usual_seeds));
}

/// Four workers and three servers, the last of which is far away (000 Fig. 5). What a commit takes
/// to a server is another thing than what a read takes.
test::commit_plan with_delayed_server() {
  test::commit_plan plan{.schedule = testing::random_schedule(1), .full = true, .steady = true};
  auto& s = plan.schedule;
  s.workers = 4;
  s.servers = 3;
  s.scenario = {.seed = 1};
  s.scenario.network.worker_link = {.latency = 1ms, .jitter = sim::exponential{}};
  s.scenario.server_delay = {0ns, 0ns, 5ms};
  s.scenario.speed.work_cost = 1ms;
  s.scenario.speed.jitter = sim::uniform{.low = 0, .high = 2};
  s.manners.assign(4, {.clocks = 20, .steps = 2});
  return plan;
}

template <visibility_policy Visibility>
test::commit_outcome run_delayed() {
  return test::run_commits<true>(
      [](test::commit_book& book) {
        return basic_dyn_sgd<Visibility, test::told, every>{
            .staleness = 3, .fold = {.inner = {}, .book = &book}, .tempo = by_hand};
      },
      with_delayed_server(),
      {.bound = 3,
       .eager = !Visibility::holds_back,
       .same_cut = synchronized_visibility<Visibility>});
}

}  // namespace

TEST_CASE("DynSGD with all workers in step is the average rule on dense rows",
          "[simulated][dyn_sgd]") {
  check_in_step<true>();
}

TEST_CASE("DynSGD with all workers in step is the average rule on sparse rows",
          "[simulated][dyn_sgd]") {
  check_in_step<false>();
}

TEST_CASE("A delayed server tears reads apart, but not with stable cuts",
          "[simulated][dyn_sgd][stable_cut]") {
  auto const torn = run_delayed<eager>();
  INFO("broken rules:" << test::lines(torn.violations));
  CHECK(torn.violations.empty());
  CHECK(torn.torn > torn.reads / 10);
  auto const whole = run_delayed<stable_cut>();
  INFO("broken rules:" << test::lines(whole.violations));
  CHECK(whole.violations.empty());
  CHECK(whole.torn == 0);
  CHECK(whole.reads > 100);
}
