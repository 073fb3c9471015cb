// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/result/json.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rubato/core/error.hpp"
#include "test/bench/results.hpp"

using namespace rubato::bench;
using nlohmann::ordered_json;

TEST_CASE("a result has the fields of the design, in its order") {
  std::vector<run_result> const results = {reached("bsp", 2, 20)};
  ordered_json const all = to_json(results);
  REQUIRE(all.is_array());
  REQUIRE(all.size() == 1);
  std::vector<std::string> names;
  for (auto const& [name, value] : all[0].items()) names.push_back(name);
  std::vector<std::string> const designed = {"protocol",
                                             "transport",
                                             "storage",
                                             "workload",
                                             "workers",
                                             "servers",
                                             "staleness",
                                             "heterogeneity",
                                             "learning_rate",
                                             "seed",
                                             "time_kind",
                                             "target",
                                             "seconds_to_target",
                                             "updates_to_target",
                                             "clocks_to_target",
                                             "seconds",
                                             "updates",
                                             "seconds_per_update",
                                             "compute_seconds",
                                             "wait_seconds",
                                             "send_seconds",
                                             "bytes_sent",
                                             "bytes_received",
                                             "final_loss",
                                             "min_obj",
                                             "var_obj",
                                             "curve"};
  REQUIRE(names.size() >= designed.size());
  names.resize(designed.size());
  CHECK(names == designed);
  CHECK(all[0]["seconds_to_target"] == 2.0);
  CHECK(all[0]["curve"] == ordered_json::parse("[[0.0, 0, 0.7], [2.0, 20, 0.29]]"));
}

TEST_CASE("a result says where the parameters were and how many versions of them lived") {
  run_result r = reached("dyn_sgd", 2, 20);
  r.storage = "multi_version";
  r.versions_peak = 7;
  ordered_json const j = to_json({&r, 1})[0];
  CHECK(j["storage"] == "multi_version");
  CHECK(j["versions_peak"] == 7);
}

TEST_CASE("what was not reached is null, and so is an unbounded staleness") {
  run_result r = missed("asp", 2, 20, 0.5);
  ordered_json const j = to_json({&r, 1})[0];
  for (char const* name :
       {"seconds_to_target", "updates_to_target", "clocks_to_target", "staleness"})
    CHECK(j[name].is_null());
  r.target.reset();
  CHECK(to_json({&r, 1})[0]["target"].is_null());
}

TEST_CASE("a loss that has diverged is null") {
  run_result r = missed("asp", 2, 20, std::numeric_limits<double>::infinity());
  ordered_json const j = to_json({&r, 1})[0];
  CHECK(j["final_loss"].is_null());
  CHECK(j["curve"][1][2].is_null());
}

TEST_CASE("a result that is read back is written the same") {
  run_result r = missed("ada_comm", 2, 20, std::numeric_limits<double>::infinity());
  r.staleness = 3;
  r.trials = {{.learning_rate = 0.5, .seconds_to_target = 2, .final_loss = 0.25},
              {.learning_rate = 1, .final_loss = 0.75}};
  r.pace_changes = {{.seconds = 1, .value = 4, .reason = "slow"}};
  r.counted_split = {.compute = 1, .send = 2, .wait = 3};
  ordered_json const written = to_json(r);
  run_result const back = from_json(written);
  CHECK(to_json(back) == written);
  CHECK(back.counted_split.wait == 3);
  CHECK(!back.seconds_to_target);
  CHECK(std::isnan(back.final_loss));
  CHECK_THROWS_AS(from_json(ordered_json{{"protocol", "bsp"}}), rubato::data_error);
}
