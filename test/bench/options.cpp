// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/setup/settings.hpp"

#include <catch2/catch.hpp>

#include <string>

#include "rubato/core/error.hpp"

using namespace rubato;
using namespace rubato::bench;
using Catch::Contains;

namespace {

compare_settings parse(std::string const& line) {
  CLI::App app;
  compare_options options;
  options.add_to(app);
  app.parse(line);
  return interpret(options);
}

}  // namespace

TEST_CASE("without options all protocols run in the simulator, with tuned rates") {
  compare_settings const s = parse("");
  CHECK(s.protocols.size() == known_protocols().size());
  CHECK(s.job.transport == transport_kind::simulated);
  CHECK(s.job.workers == 30);
  CHECK(s.job.servers == 10);
  CHECK(s.job.steps_per_commit == 10);
  CHECK_FALSE(s.learning_rate);
}

TEST_CASE("protocols may carry a staleness of their own") {
  compare_settings const s = parse("--protocols bsp,ssp:10,con_sgd --staleness 4");
  REQUIRE(s.protocols.size() == 3);
  CHECK(s.protocols[0].label() == "bsp");
  CHECK(s.protocols[1].label() == "ssp(10)");
  CHECK(s.protocols[2].label() == "con_sgd(4)");
}

TEST_CASE("DynSGD is told how it keeps versions, and other protocols take no notice") {
  compare_settings const plain = parse("--protocols con_sgd,dyn_sgd:10");
  CHECK(plain.protocols[1].label() == "dyn_sgd(10)");
  CHECK_FALSE(plain.protocols[1].with.partition_sync);
  CHECK(plain.protocols[1].with.kept == versions::exact);
  compare_settings const s =
      parse("--protocols con_sgd,dyn_sgd --partition-sync --versions capped");
  CHECK(s.protocols[0].label() == "con_sgd(3)");
  CHECK(s.protocols[1].label() == "dyn_sgd(3)+capped+sync");
  CHECK(s.protocols[1].with.partition_sync);
  CHECK(s.protocols[1].with.kept == versions::capped);
}

TEST_CASE("one pass over a worker's data is a commit, unless said otherwise") {
  CHECK(parse("--batch 0.3").job.steps_per_commit == 4);
  CHECK(parse("--batch 0.1 --steps-per-commit 1").job.steps_per_commit == 1);
}

TEST_CASE("heterogeneity and seed of the command line win over the scenario's") {
  compare_settings const s = parse("--scenario flaky --heterogeneity 2 --seed 9");
  CHECK(s.job.scenario.speed.heterogeneity.level == 2);
  CHECK(s.job.scenario.seed == 9);
  CHECK(s.job.seed == 9);
}

TEST_CASE("an unknown protocol is an error that lists the known ones") {
  CHECK_THROWS_WITH(parse("--protocols bsp,sync"), Contains("--protocols") &&
                                                       Contains("\"sync\"") &&
                                                       Contains("bsp, ssp, asp, con_sgd, dyn_sgd"));
  CHECK_THROWS_WITH(parse("--protocols bsp:3"), Contains("bsp takes no staleness"));
  CHECK_THROWS_WITH(parse("--protocols ssp:x"), Contains("\"ssp:x\""));
}

TEST_CASE("a bad option is an error that names it") {
  char const* const lines[][2] = {{"--workload tree", "--workload"},
                                  {"--transport pigeon", "--transport"},
                                  {"--transport tcp", "not available"},
                                  {"--workers 0", "--workers"},
                                  {"--servers 0", "--servers"},
                                  {"--staleness -1", "--staleness"},
                                  {"--versions all", "--versions"},
                                  {"--heterogeneity 0.5", "--heterogeneity"},
                                  {"--learning-rate fast", "--learning-rate"},
                                  {"--learning-rate -1", "--learning-rate"},
                                  {"--decay -1", "--decay"},
                                  {"--l2 -1", "--l2"},
                                  {"--batch 0", "--batch"},
                                  {"--batch 2", "--batch"},
                                  {"--steps-per-commit 0", "--steps-per-commit"},
                                  {"--clocks 0", "--clocks"},
                                  {"--target low", "--target"},
                                  {"--scenario nowhere", "--scenario"},
                                  {"--points 0", "--points"},
                                  {"--transport in-process --stop-at-target", "--stop-at-target"},
                                  {"--target none --stop-at-target", "--stop-at-target"}};
  for (auto const& [line, named] : lines) {
    INFO(line);
    CHECK_THROWS_WITH(parse(line), Contains(named));
  }
}

TEST_CASE(
    "an option that is no number, and one that does not exist, are errors of the command line") {
  CHECK_THROWS_AS(parse("--workers many"), CLI::ParseError);
  CHECK_THROWS_AS(parse("--wrokers 3"), CLI::ParseError);
}
