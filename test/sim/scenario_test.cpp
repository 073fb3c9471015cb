// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/sim/scenario.hpp>

#include <rubato/core/error.hpp>

#include <catch2/catch.hpp>

#include <limits>

using namespace rubato;
using namespace std::chrono_literals;
using sim::scenario;

TEST_CASE("a scenario is written with designated initialisers", "[sim][scenario]") {
  scenario const s{
      .speed = {.work_cost = 20us, .heterogeneity = {.level = 2}},
      .network = {.worker_link = {.latency = 500us, .jitter = sim::lognormal{.sigma = 0.4}},
                  .server_bandwidth = 125'000'000},
      .crashes = {{.worker = worker_id(3), .at = 2s}},
      .joins = {{.at = 1s}},
      .detection_delay = 50ms,
      .seed = 7};
  CHECK_NOTHROW(s.validate(4, 2));
  CHECK_NOTHROW(scenario{}.validate(1, 1));
}

TEST_CASE("a bad scenario is refused with a sentence", "[sim][scenario]") {
  auto const check = [](scenario const& s) { s.validate(4, 1); };
  CHECK_THROWS_WITH(scenario{}.validate(0, 1),
                    "workers must be between 1 and 2147483647, but is 0");
  CHECK_THROWS_WITH(scenario{}.validate(1, 0),
                    "servers must be between 1 and 2147483647, but is 0");
  CHECK_THROWS_WITH(check({.crashes = {{.worker = worker_id(1)}, {.worker = worker_id(4)}}}),
                    "crashes[1].worker must be one of the 4 workers, but is 4");
  CHECK_NOTHROW(check({.crashes = {{.worker = worker_id(4)}}, .joins = {{}}}));
  CHECK_THROWS_WITH(check({.crashes = {{.worker = worker_id(1)}, {.worker = worker_id(1)}}}),
                    "crashes[1].worker must crash only once, but 1 is listed twice");
  CHECK_THROWS_WITH(check({.crashes = {{.at = -1s}}}),
                    "crashes[0].at must be at least 0 ns, but is -1000000000");
  CHECK_NOTHROW(check({.machine_losses = {{.machine = 7, .at = 1s}}, .machine_of = {7, 7}}));
  CHECK_THROWS_WITH(check({.machine_losses = {{.machine = 2}}, .machine_of = {7, 7}}),
                    "machine_losses[0].machine must be one of machine_of, but is 2");
  CHECK_THROWS_WITH(check({.machine_losses = {{.machine = 7}, {.machine = 7}}, .machine_of = {7}}),
                    "machine_losses[1].machine must be lost only once, but 7 is listed twice");
  CHECK_THROWS_WITH(check({.machine_losses = {{.machine = 7, .at = -1ns}}, .machine_of = {7}}),
                    "machine_losses[0].at must be at least 0 ns, but is -1");
  CHECK_THROWS_WITH(check({.joins = {{.at = 1s}, {.at = -1ns}}}),
                    "joins[1].at must be at least 0 ns, but is -1");
  CHECK_THROWS_WITH(check({.detection_delay = -1ns}),
                    "detection_delay must be at least 0 ns, but is -1");
  CHECK_THROWS_AS(check({.speed = {.work_cost = -1ns}}), option_error);
  CHECK_THROWS_AS(check({.network = {.worker_link = {.latency = -1ns}}}), option_error);
  CHECK_NOTHROW(check({.server_delay = {1ms}}));
  CHECK_THROWS_WITH(check({.server_delay = {0ms, 1ms}}),
                    "server_delay must be a list of at most 1 times, one per server, but is 2");
  CHECK_THROWS_WITH(check({.server_delay = {-1ns}}),
                    "server_delay[0] must be at least 0 ns, but is -1");
}
