// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/setup/settings.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <typeinfo>
#include <vector>

#include <CLI/CLI.hpp>

#include "rubato/core/error.hpp"
#include "rubato/storage/bfloat16.hpp"
#include "rubato/storage/int8_blocks.hpp"

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
  CHECK(s.job.steps_per_commit == 1);
  CHECK(s.job.clocks == 1000);
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

TEST_CASE("paces are told their numbers, one by one or behind a colon") {
  compare_settings const s = parse(
      "--protocols fixed_ada_comm,ada_comm:30,adsp,adsp:4 --local-steps 12 --check-period 60s "
      "--epoch 1200 --probe-period 120s --momentum 0.5 --global-momentum 0.25");
  CHECK(s.protocols[0].label() == "fixed_ada_comm(12)");
  CHECK(s.protocols[1].label() == "ada_comm(30)");
  CHECK(s.protocols[2].label() == "adsp");
  CHECK(s.protocols[3].label() == "adsp(4)");
  protocol_parameters const& with = s.protocols[2].with;
  CHECK(with.check_period == std::chrono::minutes(1));
  CHECK(with.epoch == std::chrono::minutes(20));
  CHECK(with.probe_period == std::chrono::minutes(2));
  CHECK(with.global_momentum == 0.25);
  CHECK_FALSE(with.commit_rate);
  CHECK(s.job.momentum == 0.5);
  CHECK_THROWS_WITH(parse("--protocols adsp:0"), Contains("commit rate from 1 to 1000000"));
  CHECK_THROWS_WITH(parse("--protocols ada_comm:x"), Contains("number of local steps"));
  compare_settings const tuned = parse("--protocols bsp,ssp,fixed_ada_comm --batch-tune");
  CHECK(tuned.protocols[0].label() == "bsp+batch_tune");
  CHECK(tuned.protocols[1].label() == "ssp(3)");
  CHECK(tuned.protocols[2].label() == "fixed_ada_comm+batch_tune");
}

TEST_CASE("how values are written may be said, and what share of a commit is sent") {
  compare_settings const plain = parse("");
  CHECK_FALSE(plain.job.codec.updates);
  CHECK(plain.job.filter.off());
  compare_settings const s = parse("--codec int8 --top-k 0.05");
  CHECK(s.job.codec.updates.type() == typeid(int8_blocks));
  CHECK(s.job.codec.answers.type() == typeid(int8_blocks));
  CHECK(s.job.filter.largest == 0.05);
  CHECK(s.job.filter.small == small_entries::carry);
  CHECK(parse("--codec bfloat16").job.codec.answers.type() == typeid(bfloat16));
}

TEST_CASE("a clock is a mini-batch, a pass or what is said, and a curve that has arrived stays for a pass") {
  auto const is = [](char const* line, std::int64_t steps, std::int64_t clocks, std::int64_t stays, char const* name) {
    INFO(line);
    compare_settings const s = parse(line);
    CHECK(s.job.steps_per_commit == steps);
    CHECK(s.job.clocks == clocks);
    CHECK(s.job.clocks_at_target == stays);
    CHECK(clock_of(s) == name);
  };
  is("", 1, 1000, 10, " of a mini-batch");
  is("--batch 0.3", 1, 400, 4, " of a mini-batch");
  is("--batch 0.3 --clock pass", 4, 100, 1, " of a pass");
  is("--clock pass --steps-per-commit 4", 4, 250, 3, " of 4 mini-batches");
  is("--clock pass --clocks 7", 10, 7, 1, " of a pass");
  is("--workload lda", 1, 100, 1, "");
}

TEST_CASE("what an update counts may be named, with what has no rule of its own") {
  compare_settings const s =
      parse("--protocols bsp+sum,ssp+average:10,ssp:5+sum,asp+average,con_sgd+0.1,con_sgd --lambda 0.2");
  std::vector<std::string> labels;
  for (protocol_choice const& p : s.protocols) labels.push_back(p.label());
  CHECK(labels == std::vector<std::string>{"bsp+sum", "ssp(10)+average", "ssp(5)+sum", "asp+average", "con_sgd(3)+0.1",
                                           "con_sgd(3)"});
  CHECK(s.protocols[5].with.global_rate == 0.2);
  CHECK_THROWS_WITH(parse("--protocols dyn_sgd+sum"), Contains("dyn_sgd has a merge of its own"));
  for (char const* const merge : {"ssp+mean", "ssp+0", "ssp+1.5", "ssp+", "con_sgd+0.1x"})
    CHECK_THROWS_WITH(parse(std::string("--protocols ") + merge), Contains("there is no merge"));
  CHECK_THROWS_WITH(parse("--workload lda --protocols ssp+average"), Contains("add up"));
}

TEST_CASE("heterogeneity and seed of the command line win over the scenario's") {
  compare_settings const s = parse("--scenario flaky --heterogeneity 2 --seed 9");
  CHECK(s.job.scenario.speed.heterogeneity.level == 2);
  CHECK(s.job.scenario.seed == 9);
  CHECK(s.job.seed == 9);
}

TEST_CASE("a workload decides about the model, its labels and where it is evaluated") {
  compare_settings const lr = parse("--l2 0.5");
  CHECK(lr.model.model == model_kind::lr);
  CHECK(lr.model.l2 == 0.5);
  CHECK(lr.data.labels == label_use::signs);
  CHECK(lr.model.evaluated_rows > 1'000'000'000);
  compare_settings const mlp = parse("--workload mlp --hidden 64,16 --seed 7");
  CHECK(mlp.model.model == model_kind::mlp);
  CHECK(mlp.model.hidden == std::vector<std::size_t>{64, 16});
  CHECK(mlp.model.seed == 7);
  CHECK(mlp.model.evaluated_rows == 5000);
  CHECK(mlp.data.labels == label_use::classes);
  CHECK(parse("--workload mlp --evaluate-rows 100").model.evaluated_rows == 100);
  compare_settings const svr = parse("--workload svr --epsilon 0.3");
  CHECK(svr.model.epsilon == 0.3);
  CHECK(svr.data.labels == label_use::numbers);
}

TEST_CASE("the command line's delay adds to the scenario's, its bandwidth takes the place") {
  auto const link = [](char const* line) { return parse(line).job.scenario.network.worker_link; };
  sim::link_options const plain = link("--scenario ec2-edge");
  sim::link_options const slow = link("--scenario ec2-edge --extra-delay 0.25 --bandwidth 1000");
  CHECK(slow.latency == plain.latency + std::chrono::milliseconds(250));
  CHECK(slow.bandwidth == 1000);
  CHECK(plain.bandwidth > 1000);
  CHECK(link("--scenario ec2-edge --bandwidth 0").bandwidth == 0);
}

TEST_CASE("a scenario is made for the workers that there are") {
  CHECK(parse("--scenario ec2-edge --workers 36").job.scenario.speed.slowness.size() == 36);
}

TEST_CASE("across processes all protocols run, and of one that does not fit the graph it is said why not") {
  compare_settings const s = parse("--transport tcp");
  CHECK(s.job.transport == transport_kind::tcp);
  CHECK(s.job.workers == 4);
  CHECK(s.job.servers == 1);
  CHECK(s.protocols.size() == known_protocols().size() - 1);
  CHECK(std::ranges::count_if(s.protocols, [](auto const& p) { return p.has_servers(); }) == 26);
  REQUIRE(s.left_out.size() == 1);
  CHECK_THAT(s.left_out[0], Contains("ad_psgd") && Contains("is not bipartite"));
}

TEST_CASE("an unknown protocol is an error that lists the known ones") {
  CHECK_THROWS_WITH(parse("--protocols bsp,sync"), Contains("--protocols") &&
                                                       Contains("\"sync\"") &&
                                                       Contains("bsp, ssp, asp, con_sgd, dyn_sgd"));
  CHECK_THROWS_WITH(parse("--protocols bsp:3"), Contains("bsp takes no staleness"));
  CHECK_THROWS_WITH(parse("--protocols ssp:x"), Contains("\"ssp:x\""));
}

TEST_CASE("a protocol's number has a most where what it counts has") {
  for (char const* const name : {"fixed_ada_comm", "ada_comm", "streaming_diloco", "diloco", "adsp"}) {
    std::string const protocol = std::string("--protocols ") + name;
    CHECK_NOTHROW(parse(protocol + ":1000000"));
    for (char const* const steps : {":0", ":1000001", ":9223372036854775807", ":9223372036854775808"})
      CHECK_THROWS_WITH(parse(protocol + steps), Contains(name + std::string(steps)) && Contains("from 1 to 1000000"));
  }
  CHECK_THROWS_WITH(parse("--protocols prague:4294967298"),
                    Contains("\"prague:4294967298\" has no number of members of a group from 2 to 1000000"));
  CHECK_THROWS_WITH(parse("--protocols ssp:-1"), Contains("staleness of 0 or more"));
}

TEST_CASE("a bad option is an error that names it") {
  char const* const lines[][2] = {{"--workload tree", "--workload"},
                                  {"--workload mlp --hidden 8,0", "--hidden"},
                                  {"--workload mlp --hidden 8,1000001", "--hidden"},
                                  {"--epsilon -1", "--epsilon"},
                                  {"--evaluate-rows 0", "--evaluate-rows"},
                                  {"--pool 0", "--pool"},
                                  {"--test a9a.t", "--test: is held out of --data"},
                                  {"--workload kmeans --test a9a.t", "--test: is held out of --data"},
                                  {"--data a9a --synthetic url", "--synthetic: is for synthetic data, not with --data"},
                                  {"--data a9a --rows 3", "--rows: is for"},
                                  {"--data a9a --features 999", "--features: is for"},
                                  {"--workload mf --data ratings --nonzeros 7", "--nonzeros: is for"},
                                  {"--extra-delay soon", "--extra-delay"},
                                  {"--extra-delay -1ms", "--extra-delay"},
                                  {"--extra-delay 1e300", "--extra-delay"},
                                  {"--extra-delay 1e8s --scenario nowhere", "--scenario"},
                                  {"--check-period 9e9", "--check-period"},
                                  {"--epoch 100000001", "--epoch"},
                                  {"--probe-period 1e18s", "--probe-period"},
                                  {"--transport in-process --bandwidth 1", "--bandwidth"},
                                  {"--transport in-process --extra-delay 1ms", "--extra-delay"},
                                  {"--local-steps 0", "--local-steps"},
                                  {"--local-steps 1000001", "--local-steps"},
                                  {"--commit-rate 1000001", "--commit-rate"},
                                  {"--check-period soon", "--check-period"},
                                  {"--epoch 0", "--epoch"},
                                  {"--probe-period -1s", "--probe-period"},
                                  {"--commit-rate 0", "--commit-rate"},
                                  {"--momentum 1", "--momentum"},
                                  {"--codec float16", "--codec"},
                                  {"--top-k 0", "--top-k"},
                                  {"--top-k 1.5", "--top-k"},
                                  {"--global-momentum -0.1", "--global-momentum"},
                                  {"--transport pigeon", "--transport"},
                                  {"--transport tcp --bandwidth 1", "--bandwidth"},
                                  {"--transport tcp --stop-at-target", "--stop-at-target"},
                                  {"--transport tcp --global-momentum 0.5", "--global-momentum"},
                                  {"--transport tcp --partition-sync", "--partition-sync"},
                                  {"--protocols bsp,ssp:2 --partition-sync", "--partition-sync"},
                                  {"--protocols bsp,ssp:2 --versions capped", "--versions"},
                                  {"--workers 0", "--workers"},
                                  {"--servers 0", "--servers"},
                                  {"--staleness -1", "--staleness"},
                                  {"--versions all", "--versions"},
                                  {"--heterogeneity 0.5", "--heterogeneity"},
                                  {"--learning-rate fast", "--learning-rate"},
                                  {"--learning-rate -1", "--learning-rate"},
                                  {"--decay -1", "--decay"},
                                  {"--decay inf", "--decay"},
                                  {"--decay nan", "--decay"},
                                  {"--l2 -1", "--l2"},
                                  {"--l2 inf", "--l2"},
                                  {"--epsilon inf", "--epsilon"},
                                  {"--heterogeneity inf", "--heterogeneity"},
                                  {"--batch 0", "--batch"},
                                  {"--batch 2", "--batch"},
                                  {"--steps-per-commit 0", "--steps-per-commit"},
                                  {"--clock second", "--clock"},
                                  {"--lambda 0", "--lambda"},
                                  {"--lambda 2", "--lambda"},
                                  {"--shards sorted", "--shards"},
                                  {"--shards by-label:0", "--shards"},
                                  {"--shards by-label:1.5", "--shards"},
                                  {"--shards by-label:half", "--shards"},
                                  {"--workload lda --shards ordered", "--shards"},
                                  {"--workload lasso --shards all", "--shards"},
                                  {"--batch-tune --shards all", "--batch-tune"},
                                  {"--clocks 0", "--clocks"},
                                  {"--target low", "--target"},
                                  {"--scenario nowhere", "--scenario"},
                                  {"--points 0", "--points"},
                                  {"--repeat 0", "--repeat"},
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
