// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/setup/scenario_file.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/setup/edge.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/core/error.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/simulated.hpp"

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
                "local_link": {"latency": "2us", "bandwidth": 3000,
                               "jitter": {"kind": "exponential", "mean": 2}},
                "server_bandwidth": 2000, "header_bytes": 10},
    "server_delay": ["0s", "3ms"], "machine_of": [0, 4294967295, 0], "server_machine_of": [5],
    "one_process_per_machine": true,
    "crashes": [{"worker": 3, "at": 0.25}], "joins": [{"at": "10us"}],
    "machine_losses": [{"machine": 1, "at": "2s"}],
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
  CHECK(s.network.local_link.latency == 2us);
  CHECK(s.network.local_link.jitter == sim::distribution(sim::exponential{2}));
  CHECK(s.network.local_link.bandwidth == 3000);
  CHECK(s.network.server_bandwidth == 2000);
  CHECK(s.network.header_bytes == 10);
  CHECK(s.server_delay == std::vector<duration>{0s, 3ms});
  CHECK(s.machine_of == std::vector<std::uint32_t>{0, 4294967295, 0});
  CHECK(s.server_machine_of == std::vector<std::uint32_t>{5});
  CHECK(s.one_process_per_machine);
  REQUIRE(s.crashes.size() == 1);
  CHECK(s.crashes[0].worker == worker_id(3));
  CHECK(s.crashes[0].at == 250ms);
  REQUIRE(s.machine_losses.size() == 1);
  CHECK(s.machine_losses[0].machine == 1);
  CHECK(s.machine_losses[0].at == 2s);
  REQUIRE(s.joins.size() == 1);
  CHECK(s.joins[0].at == 10us);
  CHECK(s.detection_delay == 7ms);
  CHECK(s.seed == 18446744073709551615U);
}

TEST_CASE("what a scenario file does not say is as in sim::scenario") {
  sim::scenario const s = parse_scenario("{}", "s.json");
  CHECK(s.speed.work_cost == sim::scenario{}.speed.work_cost);
  CHECK(s.network.worker_link.latency == sim::scenario{}.network.worker_link.latency);
  CHECK(s.machine_of.empty());
  sim::link_options const local =
      parse_scenario(R"({"network": {"local_link": {"bandwidth": 7}}})", "s").network.local_link;
  CHECK(local.latency == 5us);
  CHECK(local.bandwidth == 7);
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
  CHECK_THAT(complaint(R"({"one_process_per_machine": 1})"),
             Contains("s.json.one_process_per_machine must be true or false"));
  CHECK_THAT(complaint(R"({"machine_of": 4})"), Contains("s.json.machine_of must be an array"));
  CHECK_THAT(complaint(R"({"machine_of": [0, -1]})"),
             Contains("s.json.machine_of[1] must be a whole number of 0 or more"));
  CHECK_THAT(complaint(R"({"machine_of": [0, 1.5]})"),
             Contains("s.json.machine_of[1] must be a whole number of 0 or more"));
  CHECK_THAT(complaint(R"({"machine_of": [4294967296]})"),
             Contains("s.json.machine_of[0] must be a whole number below 2^32"));
  CHECK_THAT(complaint(R"({"network": {"local_link": {"delay": 1}}})"),
             Contains("s.json.network.local_link: there is no member \"delay\""));
  CHECK_THAT(complaint(R"({"crashes": [{"worker": -1}]})"), Contains("crashes[0].worker must be"));
  CHECK_THAT(complaint(R"({"speed": {"jitter": {"kind": "cauchy"}}})"),
             Contains("jitter.kind must be"));
  CHECK_THAT(complaint(R"({"speed": )"), Contains("s.json: no valid JSON"));
}

TEST_CASE("a member of a scenario that is there twice is an error that names it") {
  CHECK(complaint(R"({"seed": 1, "seed": 1})") == "s.json.seed is there twice, expected once");
  CHECK(complaint(R"({"speed": {"slowness": [1, 2], "jitter": {"kind": "constant", "value": 1}, "slowness": []}})") ==
        "s.json.speed.slowness is there twice, expected once");
  CHECK(complaint(R"({"crashes": [{"at": 1}, {"worker": 1, "at": 1, "at": 2}]})") ==
        "s.json.crashes.at is there twice, expected once");
  CHECK(complaint(R"({"crashes": [{"worker": 0, "at": 1}, {"worker": 1, "at": 1}], "joins": [{"at": 1}],
                      "network": {"worker_link": {"latency": 1}, "local_link": {"latency": 1}}})") == "");
}

TEST_CASE("a number that is too large for any is an error that names where it stands") {
  CHECK(complaint(R"({"speed": {"work_cost": 1e999}})") == "s.json.speed.work_cost has a number that is too large");
  CHECK(complaint(R"({"speed": {"jitter": {"kind": "constant", "value": 1}, "slowness": [1, -1e999]}})") ==
        "s.json.speed.slowness has a number that is too large");
  CHECK(complaint(R"({"speed": {}, "crashes": [{"worker": 1, "at": 1}, {"at": 1e999}]})") ==
        "s.json.crashes.at has a number that is too large");
  CHECK(complaint(R"({"speed": {"work_cost": 1}, "seed": 1e999})") == "s.json.seed has a number that is too large");
  CHECK(complaint("[1e999]") == "s.json has a number that is too large");
}

TEST_CASE("built-in scenarios are valid") {
  for (named_scenario const& s : built_in_scenarios()) {
    for (std::size_t const workers : {1U, 2U, 5U, 18U, 30U, 100U}) {
      INFO(s.name << " with " << workers);
      CHECK_NOTHROW(s.make(workers).validate(workers, 10));
      CHECK_NOTHROW(load_scenario(std::string(s.name), workers).validate(workers, 10));
    }
    CHECK_THAT(built_in_scenario_names(), Contains(std::string(s.name)));
  }
}

TEST_CASE("a scenario that is neither built in nor a file is an error that lists the names") {
  CHECK_THROWS_WITH(load_scenario("/no/such/file", 30),
                    Contains("--scenario") && Contains("paper-cluster"));
}

TEST_CASE("times are read with their unit, or in seconds") {
  CHECK(parse_time("20ms") == 20ms);
  CHECK(parse_time("1.5 us") == 1500ns);
  CHECK(parse_time("0.25") == 250ms);
  CHECK(parse_time("0s") == 0s);
  for (char const* const bad : {"", "fast", "ms", "3 weeks", "1e999", "nan", "1 s s"}) {
    INFO(bad);
    CHECK_FALSE(parse_time(bad));
  }
}

TEST_CASE("the scenario ec2-edge is the testbed of the ADSP paper, in any size") {
  for (std::size_t const workers : {18U, 36U}) {
    sim::scenario const s = load_scenario("ec2-edge", workers);
    REQUIRE(s.speed.slowness.size() == workers);
    CHECK(heterogeneity_of(s.speed.slowness) == Approx(2.06).margin(0.005));
    CHECK(s.network.worker_link.bandwidth > 0);
  }
  CHECK(load_scenario("ec2-edge", 5).speed.slowness.size() == 5);
}

TEST_CASE("the scenario hop-cluster has four workers to a machine, or nearly so") {
  using machines = std::vector<std::uint32_t>;
  sim::scenario const s = load_scenario("hop-cluster", 16);
  CHECK(s.machine_of == machines{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  CHECK(s.network.worker_link.bandwidth == 125'000'000);
  CHECK(s.network.server_bandwidth == 125'000'000);
  CHECK(s.network.worker_link.latency == 100us);
  CHECK(s.network.local_link.latency == 10us);
  CHECK(s.network.local_link.bandwidth == 0);
  CHECK(s.speed.work_cost == 100ns);
  CHECK(s.speed.jitter == sim::distribution());
  CHECK(s.speed.slowness.empty());
  CHECK(load_scenario("hop-cluster", 10).machine_of == machines{0, 0, 0, 0, 1, 1, 1, 2, 2, 2});
  CHECK(load_scenario("hop-cluster", 3).machine_of == machines{0, 0, 0});
}

TEST_CASE("simulated workers share the cards that a scenario file says, in every run") {
  auto const took = [](std::string const& machine_of) {
    // A byte takes 1 us, so 1000 floats and a header 4064 us, and nothing else takes any time.
    sim::scenario const s = parse_scenario(
        R"({"network": {"worker_link": {"latency": 0, "bandwidth": 1000000}, "header_bytes": 64},
            "machine_of": )" +
            machine_of + "}",
        "s.json");
    cluster<simulated, asp, dense<float>> c({.workers = 4, .servers = 1, .scenario = s}, asp{},
                                            {.rows = 1000});
    auto const commit = [](auto& worker) {
      std::vector<float> const ones(1000, 1.0F);
      worker.push(ones);
      worker.step(0.0);
    };
    std::vector<duration> runs;
    for (int i = 0; i < 2; ++i) runs.push_back(c.run(commit).elapsed);
    return runs;
  };
  CHECK(took("[]") == std::vector<duration>{4064us, 4064us});
  CHECK(took("[0, 1, 2]") == std::vector<duration>{4064us, 4064us});
  CHECK(took("[0, 1, 0, 1]") == std::vector<duration>{2 * 4064us, 2 * 4064us});
  CHECK(took("[3, 3, 3, 3]") == std::vector<duration>{4 * 4064us, 4 * 4064us});
}

TEST_CASE("of phones that come and go a third leaves and is replaced") {
  sim::scenario const s = load_scenario("phones-come-and-go", 30);
  sim::scenario const alone = load_scenario("phones", 30);
  CHECK(s.speed.slowness == alone.speed.slowness);
  CHECK(heterogeneity_of(s.speed.slowness) == Approx(2.38).margin(0.1));
  CHECK(alone.crashes.empty());
  REQUIRE(s.crashes.size() == 10);
  REQUIRE(s.joins.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) CHECK(s.joins[i].at == s.crashes[i].at + 1s);
}
