// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/pacing.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/compare/compare.hpp"
#include "bench/compare/subject.hpp"
#include "bench/report/page.hpp"
#include "bench/result/json.hpp"
#include "bench/result/ranking.hpp"
#include "bench/train/timing.hpp"
#include "rubato/core/error.hpp"

using namespace rubato;
using namespace rubato::bench;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

compare_settings small(std::string const& protocols, std::string const& more = "") {
  CLI::App app;
  compare_options options;
  options.add_to(app);
  app.parse(
      "--rows 600 --features 60 --nonzeros 10 --workers 6 --servers 2 --clocks 16 --points 96 "
      "--target 0.6 --heterogeneity 3 --learning-rate 1 --clock pass --protocols " +
      protocols + ' ' + more);
  return interpret(options);
}

std::vector<run_result> run(compare_settings s) {
  subject const what(s);
  what.put_into(s.job);
  return compare(s);
}

/// Three workers, one of them three times slower. A mini-batch takes a fast one about 1 ms, and an
/// exchange takes all 1 ms.
struct one_one_three {
  explicit one_one_three(std::size_t rows = 300)
      : data(load_data({.rows = rows, .features = 30, .nonzeros = 10}, 1)),
        work(model_kind::lr, 1e-4, data.train, data.test) {
    job.work = &work;
    job.workers = 3;
    job.servers = 1;
    job.steps_per_commit = 1;
    job.clocks = 400;
    job.learning_rate = 1;
    job.scenario.speed.slowness = {1, 1, 3};
    double const rows_of_one = static_cast<double>(data.train.size()) / 3 * job.batch;
    double const values = static_cast<double>(data.train.nonzeros()) /
                          static_cast<double>(data.train.size()) * rows_of_one;
    job.scenario.speed.work_cost = seconds(0.001 / values);
    job.scenario.network.worker_link.latency = 500us;
  }
  loaded_data data;
  workload work;
  training job;
};

double share_not_computing(run_result const& r) {
  return (r.send_seconds + r.wait_seconds) / (r.compute_seconds + r.send_seconds + r.wait_seconds);
}

}  // namespace

TEST_CASE("with a commit that costs 5% of its interval ADSP waits and sends for 7% at most") {
  one_one_three const here;
  run_result const adsp =
      run_adsp(here.job, {.check_period = 60ms, .commit_rate = 3});  // a commit each 20 ms
  CHECK(adsp.wait_seconds == 0);
  CHECK(share_not_computing(adsp) <= 0.07);
  CHECK(share_not_computing(adsp) > 0.04);
  CHECK(share_not_computing(run_bsp(here.job, {})) > 0.5);
}

TEST_CASE("a run of ADSP ends when the slowest worker has made its local steps") {
  one_one_three const here;
  run_result const r = run_adsp(here.job, {.check_period = 60ms, .commit_rate = 3});
  double const slowest = r.seconds / 0.003;  // were it never to send
  CHECK(slowest > 400);
  CHECK(slowest < 450);
  CHECK(r.steps > 6 * 400);  // the fast ones make nearly three times as many
  CHECK(r.steps < 7 * 450);
  CHECK(r.implicit_momentum > 0.9);
}

TEST_CASE("workers that are lost do not keep a run of ADSP from its end") {
  one_one_three here;
  here.job.scenario.crashes = {{.worker = worker_id{2}, .at = 100ms}};
  run_result const r = run_adsp(here.job, {.check_period = 60ms, .commit_rate = 3});
  CHECK(r.seconds < 0.6);  // the fast ones' 400 steps
}

TEST_CASE("the protocols with a pace of their own get to a target, and say what they decided") {
  for (char const* transport : {"simulated", "in-process"}) {
    INFO(transport);
    std::vector<run_result> const results =
        run(small("fixed_ada_comm,ada_comm,adsp", std::string("--transport ") + transport));
    nlohmann::ordered_json const all = to_json(results);
    REQUIRE(all.size() == 3);
    for (run_result const& r : results) {
      INFO(r.label);
      CHECK(r.seconds_to_target);
      CHECK(r.counted_steps() <= r.steps);
      CHECK(r.implicit_momentum > 0.5);
      CHECK(r.implicit_momentum < 1);
    }
    CHECK(all[0]["pace_changes"].empty());
    CHECK(all[1]["pace_changes"][0]["value"] == 20);
    CHECK(all[1]["pace_changes"][0]["reason"] == "given");
    CHECK(all[2]["pace_changes"][0]["value"] == 1);
    CHECK(all[2]["pace_changes"][0]["reason"] == "an epoch begins");
    CHECK(all[2]["implicit_momentum"] == results[2].implicit_momentum);
    CHECK_THAT(explain(ranked(results)), Contains("wins"));
  }
}

TEST_CASE("a commit rate that is given is kept, and others keep away from it") {
  auto const results = run(small("adsp:2,adsp", "--commit-rate 3"));
  for (std::size_t i : {0U, 1U}) {
    REQUIRE(results[i].pace_changes.size() == 1);
    CHECK(results[i].pace_changes[0].value == static_cast<std::int64_t>(2 + i));
    CHECK(results[i].label == (i == 0 ? "adsp(2)" : "adsp(3)"));
  }
  CHECK(results[0].updates < results[1].updates);
}

TEST_CASE("times of the pace are given, or follow from the slowest worker") {
  one_one_three const here;
  pace_times const automatic = pace_times_of(here.job, {.local_steps = 10});
  CHECK(to_seconds(automatic.check_period) == Approx(10 * 0.003 + 0.001).epsilon(0.01));
  CHECK(automatic.epoch == 20 * automatic.check_period);
  CHECK(automatic.probe_period == 2 * automatic.check_period);
  pace_times const given =
      pace_times_of(here.job, {.check_period = 10ms, .epoch = 104ms, .probe_period = 1ms});
  CHECK(given.check_period == 10ms);
  CHECK(given.epoch == 100ms);  // whole check periods
  CHECK(given.probe_period == 10ms);
  CHECK(local_steps_of(here.job, {}) == 10);  // a pass
  training by_pass = here.job;
  by_pass.steps_per_commit = 10;
  CHECK(local_steps_of(by_pass, {}) == 20);
}

TEST_CASE("times of the pace are counted up to the longest, however slow a worker is") {
  one_one_three here;
  here.job.scenario.speed.slowness = {1, 1, 1e300};
  pace_times const automatic = pace_times_of(here.job, {});
  CHECK(automatic.check_period == longest_time);
  CHECK(automatic.epoch == 20 * longest_time);
  CHECK(automatic.interval == 5 * longest_time);
  pace_times const given = pace_times_of(here.job, {.check_period = 3s, .epoch = longest_time, .probe_period = 1ns});
  CHECK(given.epoch == 100'000'000s - 1s);  // whole check periods
  CHECK(given.probe_period == 3s);
}

TEST_CASE("momentum, of workers or of servers, makes a difference where it is asked for") {
  auto const losses = [](char const* more) {
    std::vector<double> out;
    for (auto const& r : run(small("bsp,fixed_ada_comm,adsp", more))) out.push_back(r.final_loss);
    return out;
  };
  auto const plain = losses("");
  auto const none = losses("--momentum 0");
  auto const local = losses("--momentum 0.5");
  auto const global = losses("--global-momentum 0.5");
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CHECK(plain[i] == none[i]);
    CHECK(plain[i] != local[i]);
    CHECK(plain[i] != global[i]);
    CHECK(local[i] < 0.6);
    CHECK(global[i] < 0.6);
  }
}

TEST_CASE("BatchTune's batches go with the speeds, and the global batch stays the same") {
  one_one_three here(1000);
  auto const sizes = [&](std::size_t step) {
    std::vector<std::size_t> out;
    for (std::size_t rank = 0; rank < 3; ++rank)
      out.push_back(mini_batches(here.job, rank).at_step(step).size());
    return out;
  };
  std::size_t const global = 3 * 27;  // a tenth of 800/3 rows each
  here.job.batch_tune = true;
  for (std::size_t step = 0; step < 40; ++step) {
    auto const now = sizes(step);
    REQUIRE(now[0] + now[1] + now[2] == global);
    REQUIRE(now == sizes(0));
  }
  CHECK(sizes(0)[2] == 11);  // 81/7
  CHECK(sizes(0)[0] == 35);
  here.job.batch = 0.9;
  CHECK_THROWS_WITH(sizes(0), Contains("--batch-tune") && Contains("smaller"));
  here.job.batch = 0.001;
  here.job.scenario.speed.slowness = {1, 1, 300};
  CHECK_THROWS_WITH(sizes(0), Contains("--batch-tune") && Contains("greater"));
}

TEST_CASE("BatchTune shortens a clock of BSP, and protocols without take no notice") {
  compare_settings s = small("bsp,ssp");
  auto const before = run(s);
  for (protocol_choice& p : s.protocols) p.with.batch_tune = true;
  auto const after = run(s);
  CHECK(after[0].label == "bsp+batch_tune");
  CHECK(after[0].seconds < 0.8 * before[0].seconds);
  CHECK(after[1].label == "ssp(3)");
  CHECK(after[1].final_loss == before[1].final_loss);
}
