// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/sim/speed.hpp>

#include <rubato/core/error.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <string>

using namespace rubato;
using namespace std::chrono_literals;
using sim::speed_model;
using sim::speed_options;

namespace {

duration step(speed_model const& model, std::uint32_t worker, double work = 1, duration now = 0s) {
  random_stream random(1);
  return model.step(worker_id(worker), work, time_point(now), random);
}

}  // namespace

TEST_CASE("a step costs work times the cost of a unit", "[sim][speed]") {
  speed_model const model({.work_cost = 3us}, 2);
  CHECK(step(model, 0, 1) == 3us);
  CHECK(step(model, 1, 100) == 300us);
  CHECK(step(model, 0, 0.5) == 1500ns);
  CHECK(step(model, 0, 0) == 0ns);
  CHECK(step(model, 0, 1e300) == duration::max());
}

TEST_CASE("slowness is listed by worker", "[sim][speed]") {
  speed_model const model({.work_cost = 10us, .slowness = {1.0, 2.5}}, 3);
  CHECK(step(model, 0) == 10us);
  CHECK(step(model, 1) == 25us);
  CHECK(step(model, 2) == 10us);
}

TEST_CASE("heterogeneity slows the last fifth, rounded up", "[sim][speed]") {
  speed_model const model({.work_cost = 10us, .heterogeneity = {.level = 2}}, 6);
  for (std::uint32_t w = 0; w < 4; ++w) CHECK(step(model, w) == 10us);
  for (std::uint32_t w = 4; w < 6; ++w) CHECK(step(model, w) == 20us);
  CHECK(step(model, 6) == 10us);  // joined later

  for (std::size_t n = 0; n <= 10'000; ++n) {
    REQUIRE(sim::heterogeneity{}.slow_workers(n) == (n + 4) / 5);
    REQUIRE(sim::heterogeneity{.slow_fraction = 0.1}.slow_workers(n) == (n + 9) / 10);
    REQUIRE(sim::heterogeneity{.slow_fraction = 1}.slow_workers(n) == n);
    REQUIRE(sim::heterogeneity{.slow_fraction = 0}.slow_workers(n) == 0);
  }
}

TEST_CASE("a random slowdown hits as often as it says", "[sim][speed]") {
  constexpr int steps = 100'000;
  speed_model const model({.work_cost = 1us, .random_slowdown = sim::random_slowdown::hop(10)}, 10);
  random_stream random(3);
  int slow = 0;
  for (int i = 0; i < steps; ++i) {
    duration const d = model.step(worker_id(0), 1, {}, random);
    REQUIRE((d == 1us || d == 6us));
    slow += d == 6us ? 1 : 0;
  }
  CHECK(std::abs(slow - steps / 10) < 500);
}

TEST_CASE("the random slowdown leaves the jitter as it was", "[sim][speed]") {
  speed_options options{.work_cost = 1ms, .jitter = sim::uniform{.low = 0.5, .high = 1.5}};
  speed_model const calm(options, 1);
  options.random_slowdown = {.probability = 0.5, .factor = 6};
  speed_model const slowed(options, 1);
  random_stream a(1);
  random_stream b(1);
  int slow = 0;
  for (int i = 0; i < 100; ++i) {
    auto const usual = static_cast<double>(calm.step(worker_id(0), 1, {}, a).count());
    auto const now = static_cast<double>(slowed.step(worker_id(0), 1, {}, b).count());
    bool const hit = now > 2 * usual;
    CHECK(now == Approx(hit ? 6 * usual : usual).epsilon(1e-4));
    slow += hit ? 1 : 0;
  }
  CHECK(slow > 0);
  CHECK(a == b);
}

TEST_CASE("jitter multiplies, and comes from the worker's own stream", "[sim][speed]") {
  speed_model const model({.work_cost = 1ms, .jitter = sim::lognormal{.sigma = 0.3}}, 2);
  random_stream mine(5, 0);
  random_stream again(5, 0);
  random_stream other(5, 1);
  double sum = 0;
  for (int i = 0; i < 20'000; ++i) {
    duration const d = model.step(worker_id(0), 1, {}, mine);
    CHECK_FALSE(model.step(worker_id(1), 1, {}, other) == d);
    REQUIRE(model.step(worker_id(0), 1, {}, again) == d);
    sum += to_seconds(d);
  }
  CHECK(sum / 20'000 == Approx(1e-3 * std::exp(0.045)).epsilon(0.01));
}

TEST_CASE("a worker's slowness changes when the scenario says so", "[sim][speed]") {
  speed_model const model({.work_cost = 10us,
                           .slowness = {1, 2},
                           .changes = {{.worker = worker_id(1), .at = 3s, .factor = 1},
                                       {.worker = worker_id(1), .at = 1s, .factor = 4},
                                       {.worker = worker_id(0), .at = 2s, .factor = 7},
                                       {.worker = worker_id(0), .at = 2s, .factor = 5}}},
                          3);
  CHECK(step(model, 1, 1, 1s - 1ns) == 20us);
  CHECK(step(model, 1, 1, 1s) == 80us);
  CHECK(step(model, 1, 1, 3s) == 20us);
  CHECK(step(model, 0, 1, 1999ms) == 10us);
  CHECK(step(model, 0, 1, 2s) == 50us);
  CHECK(step(model, 2, 1, 9s) == 10us);
}

TEST_CASE("bad speed options are named", "[sim][speed]") {
  auto const check = [](speed_options const& o) { o.validate(4); };
  CHECK_NOTHROW(check({}));
  CHECK_THROWS_WITH(check({.work_cost = -1ns}), "speed.work_cost must be at least 0 ns, but is -1");
  CHECK_THROWS_WITH(check({.slowness = {1, 0}}),
                    "speed.slowness[1] must be a finite factor greater than 0, but is 0");
  CHECK_THROWS_WITH(check({.slowness = {1, 1, 1, 1, 1}}),
                    "speed.slowness must be a list of at most 4 factors, one per worker, but is 5");
  CHECK_THROWS_WITH(check({.heterogeneity = {.level = 0.5}}),
                    "speed.heterogeneity.level must be a finite factor of at least 1, but is 0.5");
  CHECK_THROWS_AS(check({.heterogeneity = {.slow_fraction = 1.5}}), option_error);
  CHECK_THROWS_AS(check({.random_slowdown = {.probability = 2}}), option_error);
  CHECK_THROWS_AS(check({.random_slowdown = {.factor = -1}}), option_error);
  CHECK_THROWS_WITH(check({.jitter = sim::exponential{.mean = -1}}),
                    Catch::StartsWith("speed.jitter: the mean of exponential"));
  CHECK_THROWS_WITH(check({.changes = {{.worker = worker_id(4)}}}),
                    "speed.changes[0].worker must be one of the 4 workers, but is 4");
  CHECK_THROWS_AS(check({.changes = {{.at = -1s}}}), option_error);
  CHECK_THROWS_AS(check({.changes = {{.factor = 0}}}), option_error);
}
