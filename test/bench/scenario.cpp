// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/setup/scenario_file.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>

#include "rubato/core/error.hpp"

using namespace rubato;
using namespace rubato::bench;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

std::string complaint(std::string const& json) {
  try {
    (void)parse_scenario(json, "s.json");
  } catch (option_error const& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a scenario file sets every member") {
  sim::scenario const s = parse_scenario(R"({
    "speed": {"work_cost": "250 ns", "slowness": [1, 2.5],
              "heterogeneity": {"level": 3, "slow_fraction": 0.5},
              "random_slowdown": {"probability": 0.1, "factor": 4},
              "jitter": {"kind": "uniform", "low": 0.5, "high": 1.5},
              "changes": [{"worker": 1, "at": "2s", "factor": 5}]},
    "network": {"worker_link": {"latency": "1.5ms", "bandwidth": 1000,
                                "jitter": {"kind": "pareto", "alpha": 3}},
                "server_bandwidth": 2000, "header_bytes": 10},
    "server_delay": ["0s", "3ms"],
    "crashes": [{"worker": 3, "at": 0.25}], "joins": [{"at": "10us"}],
    "detection_delay": "7ms", "seed": 18446744073709551615})",
                                         "s.json");
  CHECK(s.speed.work_cost == 250ns);
  CHECK(s.speed.slowness == std::vector<double>{1, 2.5});
  CHECK(s.speed.heterogeneity.level == 3);
  CHECK(s.speed.heterogeneity.slow_fraction == 0.5);
  CHECK(s.speed.random_slowdown.probability == 0.1);
  CHECK(s.speed.jitter == sim::distribution(sim::uniform{0.5, 1.5}));
  REQUIRE(s.speed.changes.size() == 1);
  CHECK(s.speed.changes[0].at == 2s);
  CHECK(s.speed.changes[0].factor == 5);
  CHECK(s.network.worker_link.latency == 1500us);
  CHECK(s.network.worker_link.jitter == sim::distribution(sim::pareto{.alpha = 3}));
  CHECK(s.network.worker_link.bandwidth == 1000);
  CHECK(s.network.server_bandwidth == 2000);
  CHECK(s.network.header_bytes == 10);
  CHECK(s.server_delay == std::vector<duration>{0s, 3ms});
  REQUIRE(s.crashes.size() == 1);
  CHECK(s.crashes[0].worker == worker_id(3));
  CHECK(s.crashes[0].at == 250ms);
  REQUIRE(s.joins.size() == 1);
  CHECK(s.joins[0].at == 10us);
  CHECK(s.detection_delay == 7ms);
  CHECK(s.seed == 18446744073709551615U);
}

TEST_CASE("what a scenario file does not say is as in sim::scenario") {
  sim::scenario const s = parse_scenario("{}", "s.json");
  CHECK(s.speed.work_cost == sim::scenario{}.speed.work_cost);
  CHECK(s.network.worker_link.latency == sim::scenario{}.network.worker_link.latency);
}

TEST_CASE("an unknown member is rejected by name, with those that are known") {
  CHECK_THAT(complaint(R"({"sped": {}})"), Contains("s.json: there is no member \"sped\"") &&
                                               Contains("speed, network, crashes"));
  CHECK_THAT(complaint(R"({"speed": {"heterogeneity": {"HL": 2}}})"),
             Contains("s.json.speed.heterogeneity: there is no member \"HL\""));
  CHECK_THAT(complaint(R"({"speed": {"jitter": {"kind": "lognormal", "mean": 2}}})"),
             Contains("jitter: there is no member \"mean\""));
}

TEST_CASE("a member of the wrong kind is rejected by its path") {
  CHECK_THAT(complaint("[]"), Contains("s.json must be an object"));
  CHECK_THAT(complaint(R"({"speed": {"work_cost": "3 weeks"}})"),
             Contains("s.json.speed.work_cost must be a time"));
  CHECK_THAT(complaint(R"({"speed": {"slowness": [1, "x"]}})"),
             Contains("slowness[1] must be a number"));
  CHECK_THAT(complaint(R"({"server_delay": "1ms"})"),
             Contains("s.json.server_delay must be an array"));
  CHECK_THAT(complaint(R"({"server_delay": ["1ms", true]})"),
             Contains("s.json.server_delay[1] must be a time"));
  CHECK_THAT(complaint(R"({"crashes": [{"worker": -1}]})"), Contains("crashes[0].worker must be"));
  CHECK_THAT(complaint(R"({"speed": {"jitter": {"kind": "cauchy"}}})"),
             Contains("jitter.kind must be"));
  CHECK_THAT(complaint(R"({"speed": )"), Contains("s.json: no valid JSON"));
}

TEST_CASE("built-in scenarios are valid") {
  for (named_scenario const& s : built_in_scenarios()) {
    INFO(s.name);
    CHECK_NOTHROW(s.make().validate(30, 10));
    CHECK_NOTHROW(load_scenario(std::string(s.name)));
  }
}

TEST_CASE("a scenario that is neither built in nor a file is an error that lists the names") {
  CHECK_THROWS_WITH(load_scenario("/no/such/file"),
                    Contains("--scenario") && Contains("paper-cluster"));
}
