// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Processes that die, fall silent, come back, or do not fit.
#include <catch2/catch.hpp>

#include <signal.h>

#include <chrono>

#include "process/checks.hpp"
#include "process/runs.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Contains;
using test::check_error;
using test::column;

namespace {

/// A run that would go on for long, where a lost process is noticed soon.
test::run_plan long_run(std::string const& on_loss, test::words options = {}) {
  test::run_plan plan;
  plan.options = {"--clocks", "100000", "--pause", "2000", "--tells", "yes"};
  plan.options.insert(plan.options.end(), options.begin(), options.end());
  plan.settings = test::notices_losses(on_loss);
  return plan;
}

/// The same with an end, where it goes on without who is lost. It is held at clock 40 until the test has done what it
/// does to a run under way.
test::run_plan short_run(int clocks, test::words const& options = {}) {
  test::run_plan plan = long_run("go-on", options);
  plan.options.insert(plan.options.end(), {"--clocks", std::to_string(clocks)});
  plan.held_at = 40;
  return plan;
}

void await_clock(test::child& w, std::uint32_t rank, int clock) {
  std::string const line = "clock " + std::to_string(rank) + " " + std::to_string(clock) + "\n";
  INFO(w.errors());
  REQUIRE(w.prints(line));
}

constexpr std::size_t columns = 4;

/// How many steps of a worker count that was not lost.
std::int64_t whole(test::child const& w, std::size_t worker) {
  return test::whole(w, worker, columns);
}

bool ended_well(test::child& c) { return c.wait() == 0; }

/// That the steps of a lost worker which count are as many, give or take its last commit: it may be
/// on one of two servers only, which is counted then.
void check_lost(test::child const& w, std::size_t worker, std::int64_t least, std::int64_t most) {
  CHECK(test::spread_of_lost(w, worker, columns, least, most) ==
        std::stoll(w.value("partly_folded")));
}

/// The last clock at which this worker has read; what it had committed by then was received.
std::int64_t last_clock(test::child const& w) {
  auto const text = w.value("clock");
  return std::stoll(text.substr(text.find(' ') + 1));
}

/// Some clocks go by after this one, and then the run is held again.
void pass_clocks(test::process_run& run, std::int64_t after) {
  run.hold_at(after + 40);
  INFO(run.errors());
  REQUIRE(test::comes_true([&] { return last_clock(run.worker(0)) > after + 20; }));
}

/// A worker that has come to a run which was held for it.
void await_joiner(test::process_run& run, test::child& joiner) {
  bool const began = joiner.prints("began ");
  INFO(run.errors());
  REQUIRE(began);
  run.let_go();
}

std::string named(char const* role, int rank, test::child const& c) {
  return std::string(role) + " " + std::to_string(rank) + " (process " + std::to_string(c.id()) +
         ") was lost";
}

}  // namespace

TEST_CASE("a killed worker ends the run for all, by name", "[process][loss]") {
  test::process_run run(long_run("end"));
  await_clock(run.worker(1), 1, 5);
  run.worker(1).send(SIGKILL);
  for (std::size_t const i : {0u, 2u}) check_error(run.worker(i), named("worker", 1, run.worker(1)));
  CHECK(run.worker(1).wait() == 128 + SIGKILL);
  for (test::child* const c : {&run.server(0), &run.server(1), &run.coordinator()})
    check_error(*c, named("worker", 1, run.worker(1)));
}

TEST_CASE("a run goes on without a killed worker, and keeps what it had committed",
          "[process][loss]") {
  test::process_run run(short_run(150));
  await_clock(run.worker(1), 1, 20);
  run.worker(1).send(SIGKILL);
  test::await_loss(run);
  run.let_go();
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed == "worker 1: 137\n");
  std::int64_t const seen = last_clock(run.worker(1));
  for (std::size_t const i : {0u, 2u}) {
    CHECK(whole(run.worker(i), 0) == 150);
    CHECK(whole(run.worker(i), 2) == 150);
    check_lost(run.worker(i), 1, seen, seen + 1);
    CHECK(run.worker(i).value("crashes") == "1");
    CHECK(run.worker(i).value("weights") == run.worker(0).value("weights"));
  }
  CHECK_THAT(run.coordinator().errors(), Contains("worker 1"));
}

TEST_CASE("a run without the barrier goes on without a killed worker", "[process][loss]") {
  std::string const protocol =
      GENERATE("ssp:1", "asp", "con_sgd:1", "dyn_sgd:1", "dyn_sgd_cut:1", "ssp_strict:1");
  INFO(protocol);
  auto plan = short_run(100, {"--protocol", protocol});
  plan.program = test::program_of(protocol);
  test::process_run run(plan);
  await_clock(run.worker(0), 0, 20);
  run.worker(0).send(SIGKILL);
  test::await_loss(run);
  run.let_go();
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed == "worker 0: 137\n");
  for (std::size_t const i : {1u, 2u}) {
    CHECK(whole(run.worker(i), 1) == 100);
    CHECK(whole(run.worker(i), 2) == 100);
    check_lost(run.worker(i), 0, 15, last_clock(run.worker(0)) + 1);
  }
}

TEST_CASE("a process of several threads that is killed is lost with all of them",
          "[process][loss]") {
  auto plan = short_run(100, {"--protocol", "ssp:2", "--threads", "2", "--columns", "6"});
  test::process_run run(plan);
  await_clock(run.worker(1), 3, 20);
  run.worker(1).send(SIGKILL);
  test::await_loss(run);
  run.let_go();
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed == "worker 1: 137\n");
  for (std::size_t const w : {0u, 1u, 4u, 5u})
    for (std::int64_t const x : column(run.worker(0), w, 6)) CHECK(x == 100);
  for (std::size_t const w : {2u, 3u})
    for (std::int64_t const x : column(run.worker(0), w, 6)) CHECK(x < 100);
  CHECK(run.worker(2).value("counts") == run.worker(0).value("counts"));
}

TEST_CASE("runs follow one another without a lost worker", "[process][loss]") {
  test::process_run run(short_run(100, {"--stages", "3"}));
  await_clock(run.worker(1), 1, 20);
  run.worker(1).send(SIGKILL);
  test::await_loss(run);
  run.let_go();
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed == "worker 1: 137\n");
  // Ranks are those of one run: the last one is the second from the second run on.
  CHECK(whole(run.worker(0), 0) == 300);
  CHECK(whole(run.worker(0), 2) == 100);
  for (std::int64_t const x : column(run.worker(0), 1, columns)) CHECK(x >= 200 + last_clock(run.worker(1)));
  CHECK(run.worker(2).value("weights") == run.worker(0).value("weights"));
}

TEST_CASE("a killed server ends the run for all, by name", "[process][loss]") {
  auto const policy = GENERATE("end", "go-on");
  // Also while a state is being read from several servers.
  test::process_run run(long_run(policy, {"--observes", "yes", "--ballast", "200000"}));
  await_clock(run.worker(0), 0, 5);
  run.server(1).send(SIGKILL);
  for (std::size_t i = 0; i < 3; ++i) check_error(run.worker(i), "server 1 (");
  CHECK(run.server(1).wait() == 128 + SIGKILL);
  check_error(run.server(0), "server 1 (");
  check_error(run.coordinator(), "server 1 (");
}

TEST_CASE("a killed coordinator ends the run for all, by name", "[process][loss]") {
  test::process_run run(long_run("go-on"));
  await_clock(run.worker(0), 0, 5);
  run.coordinator().send(SIGKILL);
  for (std::size_t i = 0; i < 3; ++i) check_error(run.worker(i), "the coordinator was lost");
  for (std::size_t i = 0; i < 2; ++i) check_error(run.server(i), "the coordinator was lost");
}

TEST_CASE("a worker that is silent for too long ends the run", "[process][silence]") {
  auto plan = long_run("end");
  plan.settings["RUBATO_SILENCE"] = "1.5";
  test::process_run run(plan);
  await_clock(run.worker(1), 1, 5);
  run.worker(1).send(SIGSTOP);
  for (std::size_t const i : {0u, 2u}) check_error(run.worker(i), named("worker", 1, run.worker(1)));
  run.worker(1).send(SIGCONT);
  check_error(run.worker(1), "lost");
}

TEST_CASE("a server or coordinator that is silent for too long ends the run",
          "[process][silence]") {
  auto plan = long_run("go-on");
  plan.settings["RUBATO_SILENCE"] = "1.5";
  test::process_run with_server(plan);
  test::process_run with_coordinator(plan);
  await_clock(with_server.worker(1), 1, 5);
  await_clock(with_coordinator.worker(1), 1, 5);
  with_server.server(0).send(SIGSTOP);
  with_coordinator.coordinator().send(SIGSTOP);
  for (std::size_t i = 0; i < 3; ++i) check_error(with_server.worker(i), "server 0 (");
  check_error(with_server.coordinator(), "server 0 (");
  for (std::size_t i = 0; i < 3; ++i)
    check_error(with_coordinator.worker(i), "the coordinator was lost");
  for (std::size_t i = 0; i < 2; ++i)
    check_error(with_coordinator.server(i), "the coordinator was lost");
  with_server.server(0).send(SIGCONT);
  with_coordinator.coordinator().send(SIGCONT);
  // Who was stopped ends as well, and no process hangs.
  (void)with_server.failures();
  (void)with_coordinator.failures();
}

TEST_CASE("a run goes on without a worker that is silent, and what it sends later does not count",
          "[process][silence]") {
  auto plan = short_run(200);
  plan.settings["RUBATO_SILENCE"] = "1.5";
  plan.settings["RUBATO_RECONNECT"] = "2";  // so that who was stopped gets to hear it
  test::process_run run(plan);
  await_clock(run.worker(1), 1, 20);
  run.worker(1).stop();
  std::int64_t const seen = last_clock(run.worker(1));
  pass_clocks(run, seen);
  run.worker(1).send(SIGCONT);
  check_error(run.worker(1), "given up as lost");
  run.let_go();
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed == "worker 1: 3\n");
  CHECK(whole(run.worker(0), 0) == 200);
  check_lost(run.worker(0), 1, seen, seen + 2);
}

TEST_CASE("a restarted worker takes part again", "[process][join]") {
  auto const protocol = GENERATE("bsp", "ssp:1");
  test::process_run run(short_run(200, {"--protocol", protocol}));
  await_clock(run.worker(1), 1, 20);
  run.worker(1).send(SIGKILL);
  (void)run.worker(1).wait();
  std::int64_t const seen = last_clock(run.worker(1));
  pass_clocks(run, seen);
  test::child& again = run.start_again(1);
  await_joiner(run, again);
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  CHECK(again.value("rank") == "1");
  std::int64_t const began = std::stoll(again.value("began 1"));
  CHECK(began > seen);
  CHECK(whole(run.worker(0), 0) == 200);
  check_lost(run.worker(0), 1, seen - 2 + (200 - began), seen + 1 + (200 - began));
  CHECK(again.value("weights") == run.worker(0).value("weights"));
}

TEST_CASE("a worker that is started again at once takes part again", "[process][join]") {
  auto const protocol = GENERATE("bsp", "ssp_strict:3", "dyn_sgd_cut:2", "con_sgd:2");
  INFO(protocol);
  auto plan = short_run(200, {"--protocol", protocol});
  plan.program = test::program_of(protocol);
  test::process_run run(plan);
  for (int life = 1; life <= 3; ++life) {
    await_clock(run.worker(0), 0, 10 * life);
    run.worker(1).send(SIGKILL);  // before its commits are folded, or known to all
    (void)run.worker(1).wait();
    (void)run.start_again(1);
  }
  await_joiner(run, run.worker(1));
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  CHECK(run.worker(1).value("weights") == run.worker(0).value("weights"));
}

TEST_CASE("a worker that was given up does not disturb its successor",
          "[process][join][silence]") {
  auto plan = short_run(200);
  plan.settings["RUBATO_SILENCE"] = "1.5";
  plan.settings["RUBATO_RECONNECT"] = "2";  // so that who was stopped gets to hear it
  test::process_run run(plan);
  await_clock(run.worker(1), 1, 20);
  run.worker(1).stop();
  std::int64_t const seen = last_clock(run.worker(1));
  pass_clocks(run, seen);
  test::child& successor = run.start_another(1);
  REQUIRE(successor.prints("began 1 "));
  run.worker(1).send(SIGCONT);
  check_error(run.worker(1), "given up as lost");
  run.let_go();
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed == "worker 1: 3\n");
  std::int64_t const began = std::stoll(successor.value("began 1"));
  check_lost(run.worker(0), 1, seen + (200 - began), seen + 2 + (200 - began));
  CHECK(whole(run.worker(0), 0) == 200);
}

TEST_CASE("a new worker process joins a run under way", "[process][join]") {
  test::process_run run(short_run(200));
  await_clock(run.worker(0), 0, 10);
  test::child& joiner = run.start_another();
  await_joiner(run, joiner);
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  CHECK(joiner.value("rank") == "3");
  std::int64_t const began = std::stoll(joiner.value("began 3"));
  CHECK(began >= 10);
  CHECK(whole(run.worker(0), 0) == 200);
  CHECK(whole(run.worker(0), 3) == 200 - began);
  CHECK(joiner.value("weights") == run.worker(0).value("weights"));
}

TEST_CASE("what a body throws ends the run for all", "[process]") {
  test::process_run run(long_run(
      "end", {"--odd-rank", "2", "--odd-option", "--throw-at", "--odd-value", "7"}));
  check_error(run.worker(2), "the ink has run out");
  for (std::size_t const i : {0u, 1u}) {
    check_error(run.worker(i), "the ink has run out");
    CHECK_THAT(run.worker(i).errors(), Contains("worker process 2"));
  }
  CHECK(ended_well(run.server(0)));
  CHECK(ended_well(run.coordinator()));
}

TEST_CASE("a run goes on without a worker whose body throws, and it may be started again",
          "[process][join]") {
  test::process_run run(
      short_run(200, {"--odd-rank", "1", "--odd-option", "--throw-at", "--odd-value", "7"}));
  check_error(run.worker(1), "the ink has run out");
  pass_clocks(run, last_clock(run.worker(0)));
  test::child& again = run.start_again(1);  // past the clock at which it throws
  await_joiner(run, again);
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  CHECK(whole(run.worker(0), 0) == 200);
  CHECK(again.value("weights") == run.worker(0).value("weights"));
}

TEST_CASE("stop() ends the run for all without an error", "[process]") {
  test::process_run run(long_run(
      "end", {"--odd-rank", "2", "--odd-option", "--stop-at", "--odd-value", "7"}));
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  for (std::size_t i = 0; i < 3; ++i) CHECK(run.worker(i).prints("over\n"));
}

namespace {
/// A run in which worker 1 has an option of its own.
test::vain_run odd_run(test::words const& odd) {
  auto const plan = [odd](std::string const& patience) {
    auto run = long_run("end", odd);
    run.settings["RUBATO_PATIENCE"] = patience;
    run.options.insert(run.options.end(), {"--odd-rank", "1"});
    return run;
  };
  return {plan, {"2 of 3 workers", "refused"}};
}

void check_refused(test::process_run& run, std::string const& own, std::string const& others) {
  check_error(run.worker(1), own);
  CHECK_THAT(run.worker(1).errors(),
             Contains(others) && Contains("the coordinator refused this process") &&
                 Contains("another protocol or other tables") && Contains("(refused)"));
  check_error(run.coordinator(), "2 of 3 workers");
  check_error(run.worker(0), "2 of 3 workers");
  check_error(run.worker(2), "2 of 3 workers");
}
}  // namespace

TEST_CASE("a program with other tables or another protocol is refused", "[process]") {
  auto const runs = test::ended_runs({odd_run({"--odd-option", "--weights", "--odd-value", "501"}),
                                      odd_run({"--odd-option", "--protocol", "--odd-value", "asp"})});
  check_refused(*runs[0], "501 rows", "500 rows");
  check_refused(*runs[1], "visibility: eager", "visibility: strict");
}

TEST_CASE("when processes are missing, all are told so in time", "[process]") {
  auto const missing = GENERATE("server", "worker");
  auto const plan = [missing](std::string const& patience) {
    auto some_miss = long_run("end");
    some_miss.settings["RUBATO_PATIENCE"] = patience;
    some_miss.own_settings = [missing](std::string const& role, std::uint32_t rank) {
      // It looks for its run elsewhere.
      return role == missing && rank == 1
                 ? test::variables{{"RUBATO_COORDINATOR", "unix:/nowhere"}, {"RUBATO_PATIENCE", "0.1"}}
                 : test::variables{};
    };
    return some_miss;
  };
  std::string const expected =
      missing == std::string("server") ? "1 of 2 servers and 3 of 3 workers are here"
                                       : "2 of 2 servers and 2 of 3 workers are here";
  auto const ended = test::ended_runs({{plan, {expected}}});
  test::process_run& run = *ended.front();
  check_error(run.coordinator(), expected);
  check_error(run.worker(0), expected);
  check_error(run.worker(2), expected);
  check_error(run.server(0), expected);
  auto& lost = missing == std::string("server") ? run.server(1) : run.worker(1);
  check_error(lost, "could not be reached");
  CHECK_THAT(lost.errors(), Contains("waited ") && Contains(" s for the coordinator at unix:/nowhere, which "));
  CHECK_THAT(lost.errors(), !Contains("was lost"));
}
