// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/hop.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

using namespace rubato;
using namespace rubato::bench;
using namespace rubato::bench::asplos19;

TEST_CASE("every figure of the Hop paper has its name") {
  std::set<std::string_view> names;
  for (reproduction const& r : reproductions()) CHECK(names.insert(r.name).second);
  for (int figure = 12; figure <= 21; ++figure)
    CHECK(names.count("hop-figure" + std::to_string(figure)) == 1);
}

TEST_CASE("without communication an iteration takes what the rules say") {
  auto const of = [](char const* protocol, slowdown slow) {
    return timing_model({.protocol = protocol, .slow = slow}, 1).iteration;
  };
  CHECK(of("hop", slowdown::none) == Approx(1));
  CHECK(of("hop_skip:10", slowdown::none) == Approx(1));
  double const standard = of("hop", slowdown::straggler);
  CHECK(standard > 3.8);  // but for the first iterations all go at the straggler's pace
  CHECK(standard <= 4);
  CHECK(of("hop_skip:2", slowdown::straggler) < 0.6 * standard);
  CHECK(of("hop_skip:10", slowdown::straggler) < 1.1);
  double const slowed = of("hop", slowdown::random);
  CHECK(slowed > 1.5);
  CHECK(of("hop_backup:1", slowdown::random) < slowed);
  CHECK(of("hop_stale:5", slowdown::random) < slowed);
}

TEST_CASE("whoever is waited for counts as much as all others, a straggler that is not does not") {
  CHECK(timing_model({}, 1).upper_half == Approx(0.5));
  CHECK(timing_model({.slow = slowdown::straggler}, 1).upper_half == Approx(0.5));
  model_result const backup =
      timing_model({.protocol = "hop_backup:1", .slow = slowdown::straggler}, 1);
  CHECK(backup.upper_half > 0.9);
}

TEST_CASE("a task trains until its target, and the seed decides all") {
  reproduce_options const options{.data_dir = "/no/such/directory", .clocks = 40};
  asplos19::task t = asplos19::task::network(options);
  setting const s{.protocol = "hop_skip:2", .slow = slowdown::straggler, .gap_max = 4};
  training const job = t.job_of(s, 3);
  CHECK(job.workers == 16);
  CHECK(job.momentum == 0.9);
  CHECK(job.scenario.speed.slowness == std::vector<double>{4});
  CHECK(job.scenario.machine_of[3] == 0);
  CHECK(job.scenario.machine_of[4] == 1);
  outcome const o = t.measure(s);
  CHECK(o.label == "hop_skip(2)");
  REQUIRE(o.runs.size() == 3);
  CHECK(o.median().jumped_over > 0);
  CHECK(o.iteration_seconds() >= t.step_seconds(s));
  CHECK(o.median().final_loss < o.median().curve.front().loss);
  CHECK(t.measure(s).median().final_loss == o.median().final_loss);
}

TEST_CASE("stale updates count by their age, or plainly where that is asked for") {
  reproduce_options const options{.data_dir = "/no/such/directory", .clocks = 30};
  asplos19::task t = asplos19::task::network(options);
  setting s{.protocol = "hop_stale:5", .slow = slowdown::straggler};
  run_result const weighted = t.run(s, 2);
  s.plainly = true;
  run_result const plain = t.run(s, 2);
  CHECK(weighted.label == "hop_stale(5)");
  CHECK(plain.label == "hop_stale(5)+plain");
  CHECK(plain.updates == weighted.updates);
  CHECK(plain.final_loss != weighted.final_loss);
}

TEST_CASE("workers are on as many machines as the setting says") {
  setting const s{.machines = {4, 2, 2}};
  CHECK(s.workers() == 8);
  reproduce_options const options{.data_dir = "/no/such/directory"};
  training const job = asplos19::task::network(options).job_of(s, 1);
  CHECK(job.scenario.machine_of == std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1, 2, 2});
}
