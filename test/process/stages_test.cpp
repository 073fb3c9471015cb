// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Tasks of stages, when processes are killed in one.
#include <catch2/catch.hpp>

#include <signal.h>

#include <cstddef>
#include <string>

#include "process/checks.hpp"
#include "process/runs.hpp"

using namespace rubato;
using Catch::Contains;

namespace {

test::run_plan plan_of(std::string const& on_loss, bool local) {
  test::run_plan plan;
  plan.program = "stages";
  plan.options = {"--local", local ? "yes" : "no"};
  plan.settings = test::notices_losses(on_loss);
  plan.held_at = 60;
  return plan;
}

// In single-machine mode the second stage runs where the first one has not, and then where it has first.
constexpr std::size_t alone = 2, after_it = 0;

std::string lost(test::child const& c) {
  return "worker " + std::to_string(alone) + " (process " + std::to_string(c.id()) + ") was lost";
}

}  // namespace

TEST_CASE("a stage is begun again when a process of it is killed, and nothing is lost or seen twice",
          "[process][loss]") {
  bool const local = GENERATE(false, true);
  INFO("single-machine mode: " << local);
  test::process_run run(plan_of("go-on", local));
  std::size_t const victim = local ? alone : 0;
  REQUIRE(run.worker(victim).prints("middle 0\n"));
  run.worker(victim).send(SIGKILL);
  run.let_go();
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed == "worker " + std::to_string(victim) + ": 137\n");
  for (std::size_t const i : {1u, 2u - static_cast<unsigned>(victim)}) {
    CHECK(run.worker(i).value("sum") == std::to_string(2 * 10 + (local ? 1 : 2) * 200 + 2 * 10));
    // Alone, there is one part more: the first is no measure of its degree, as its tables came in it.
    CHECK(run.worker(i).value("runs") == (local ? "6" : "4"));
  }
}

TEST_CASE("a stage whose process is killed ends for all where losses end the run", "[process][loss]") {
  test::process_run run(plan_of("end", true));
  REQUIRE(run.worker(alone).prints("middle 0\n"));
  run.worker(alone).send(SIGKILL);
  run.let_go();
  for (std::size_t const i : {0u, 1u}) test::check_error(run.worker(i), lost(run.worker(alone)));
  CHECK(run.worker(alone).wait() == 128 + SIGKILL);
}

TEST_CASE("a stage that cannot be begun again as often as processes are killed ends for all", "[process][loss]") {
  test::process_run run(plan_of("go-on", true));
  for (std::size_t const victim : {alone, after_it}) {
    REQUIRE(run.worker(victim).prints("middle 0\n"));
    run.worker(victim).send(SIGKILL);
  }
  run.let_go();
  test::check_error(run.worker(1), "stage 1: a node was lost, after it had begun again 1 times");
}
