// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A run of several processes comes to what the same body comes to in one.
#include <catch2/catch.hpp>

#include <rubato/protocol/bsp.hpp>
#include <rubato/transport/in_process.hpp>

#include "process/runs.hpp"
#include "process/training.hpp"

using namespace rubato;

namespace {

struct result {
  std::string counts, keys, keyed, weights;
};

result in_this_process(int stages) {
  test::job const j;
  test::initial_values const first(j);
  auto c = test::make_cluster(in_process{.workers = 3, .servers = 2}, bsp{}, j, first);
  for (; stages != 0; --stages)
    c.run([&](auto& w) { (void)test::trainee(w, j).run([](std::int64_t) {}); });
  auto const& keyed = c.template parameters<1>();
  return {test::listed(c.template parameters<0>()), test::listed(keyed.keys),
          test::listed(keyed.values), test::hash_of(c.template parameters<2>())};
}

void check_same(test::run_plan plan, int stages = 1) {
  plan.options.insert(plan.options.end(), {"--stages", std::to_string(stages)});
  auto const expected = in_this_process(stages);
  std::uint32_t const workers = plan.workers;
  test::process_run run(std::move(plan));
  auto const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  for (std::uint32_t i = 0; i < workers; ++i) {
    test::child const& w = run.worker(i);
    CHECK(w.value("rank") == std::to_string(i));
    CHECK(w.value("counts") == expected.counts);
    CHECK(w.value("keys") == expected.keys);
    CHECK(w.value("keyed") == expected.keyed);
    CHECK(w.value("weights") == expected.weights);
    CHECK(w.value("updates") == "60");
    CHECK(w.value("commits") == "60");
  }
}

}  // namespace

TEST_CASE("BSP over TCP is the in-process run bit for bit", "[process][bsp]") {
  check_same({.workers = 3, .servers = 2});
}

TEST_CASE("BSP over Unix-domain sockets is the in-process run bit for bit", "[process][bsp]") {
  check_same({.workers = 3, .servers = 2, .unix_sockets = true});
}

TEST_CASE("BSP with three threads in one process is the in-process run bit for bit",
          "[process][bsp]") {
  check_same({.workers = 1, .servers = 2, .options = {"--threads", "3"}});
}

TEST_CASE("BSP with other numbers of servers is the same run", "[process][bsp]") {
  check_same({.workers = 3, .servers = GENERATE(1u, 3u)});
}

TEST_CASE("several runs of one cluster follow one another", "[process][bsp]") {
  check_same({.workers = 3, .servers = 2}, 3);
}

TEST_CASE("several clusters of one program follow one another, and none meets the coordinator of another",
          "[process][bsp]") {
  check_same({.workers = 3,
              .servers = 2,
              .options = {"--clusters", "12"},
              .unix_sockets = GENERATE(false, true)});
}

TEST_CASE("every protocol counts every step once", "[process]") {
  std::string const protocol = GENERATE("bsp", "ssp:0", "ssp:2", "asp", "con_sgd:2", "dyn_sgd:2",
                                        "dyn_sgd_cut:2", "ssp_strict:1", "adsp");
  bool const by_time = protocol == "adsp";
  test::process_run run({.workers = 2,
                         .servers = 2,
                         .options = {"--protocol", protocol, "--threads", "2", "--clocks",
                                     by_time ? "1000000" : "30", "--steps", "30", "--pause",
                                     by_time ? "5000" : "0"},
                         .program = test::program_of(protocol)});
  INFO(protocol);
  auto const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  std::string expected;
  for (int row = 0; row < 8; ++row) expected += row == 0 ? "30 30 30 30" : " 30 30 30 30";
  CHECK(run.worker(0).value("counts") == expected);
  CHECK(run.worker(0).value("keyed_totals") == "1030 30 30 30");
  CHECK(run.worker(1).value("counts") == expected);
  CHECK(run.worker(0).value("weights") == run.worker(1).value("weights"));
  if (!by_time) CHECK(run.worker(0).value("updates") == "120");
}
