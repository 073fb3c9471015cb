// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/adsp.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bench/reproduce/limited_rate.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/adsp.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/simulated.hpp"

using namespace rubato;
using namespace rubato::bench;
using namespace rubato::bench::aaai20;
using namespace std::chrono_literals;

TEST_CASE("every figure of the ADSP paper has its name, and no name has two") {
  std::set<std::string_view> names;
  for (reproduction const& r : reproductions()) CHECK(names.insert(r.name).second);
  for (char const* name : {"figure1", "figure3", "figure4", "figure5", "figure6", "figure8",
                           "figure9", "figure10", "figure13", "search"})
    CHECK(names.count(std::string("adsp-") + name) == 1);
}

TEST_CASE("ADSP+'s workers make no more local steps than they may, and commit as often") {
  commit_rate_options const options{.check_period = 100ms, .first_rate = 2, .search = false};
  std::vector<std::int64_t> const limits = {7, 3};
  cluster c{simulated{.workers = 3,
                      .scenario = {.speed = {.work_cost = 1ms},
                                   .network = {.worker_link = {.latency = 1ms}}}},
            with(adsp{}, limited_rate(options, limits)), dense<float>{.rows = 4}};
  std::array<std::int64_t, 3> most{};
  c.run([&](auto& worker) {
    std::vector<float> w(4);
    std::vector<float> const delta(4, 1.0F);
    for (std::int64_t steps = 1; worker.now() < time_point(1s); ++steps) {
      worker.pull(w);
      worker.push(delta);
      if (!worker.step(1)) continue;
      most[worker.rank()] = std::max(most[worker.rank()], steps);
      steps = 0;
    }
    CHECK(worker.clock().value() >= 19);
    CHECK(worker.clock().value() <= 21);
  });
  CHECK(most[0] == 7);
  CHECK(most[1] == 3);
  CHECK(most[2] > 40);
}

TEST_CASE("ADSP+'s pace is ADSP's with a limit of its own for each worker") {
  limited_rate pace({.check_period = 100ms}, {5});
  pace_point const p{.clock = clock_index(0), .committed_at = {}, .worker = worker_id{0}};
  CHECK(pace.due(p).at == time_point::max());
  pace.follow({.start = {}, .period = 100ms, .done = clock_index(0), .commits = 2}, p);
  CHECK(pace.due(p).at == time_point(50ms));
  CHECK(pace.due(p).steps_max == 5);
}

TEST_CASE("a median is one of the runs, and comes by the time to the target") {
  auto const ended = [](std::optional<double> seconds, double loss) {
    run_result r;
    r.seconds_to_target = seconds;
    r.final_loss = loss;
    return r;
  };
  outcome const o = outcome_of("x", 1, {ended({}, 0.9), ended(3.0, 0), ended(2.0, 0)});
  CHECK(o.seconds() == 3);
  outcome const none = outcome_of("x", 1, {ended({}, 0.9), ended(3.0, 0), ended({}, 0.5)});
  CHECK(std::isinf(none.seconds()));
  CHECK(none.median().final_loss == 0.5);
  CHECK(show_gain(1, 4) == "-75%");
}

TEST_CASE("an experiment trains until its target, and the seed decides all") {
  reproduce_options const options{.data_dir = "/no/such/directory", .clocks = 30};
  material data = material::images(options);
  experiment e(data, aaai20::one_one_three(), options);
  e.here.job.clocks = 60;
  e.here.job.target = 2;
  run_result const r = e.run(e.choice("adsp:2"), 0.5, 7);
  REQUIRE(r.seconds_to_target);
  CHECK(r.final_loss < 2.2);
  CHECK(e.run(e.choice("adsp:2"), 0.5, 7).final_loss == r.final_loss);
  CHECK(e.run(e.choice("adsp:2"), 0.5, 8).final_loss != r.final_loss);
}
