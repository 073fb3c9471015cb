// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Processes and connections that are lost under protocols whose clocks go by time, whose reads are
// synchronized, or whose updates weigh by the number of workers; and processes that come back.
#include <catch2/catch.hpp>

#include <signal.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "process/checks.hpp"
#include "process/runs.hpp"

using namespace rubato;
using Catch::Contains;
using test::check_error;

namespace {

constexpr std::int64_t steps = 300;  // of a worker that is not lost
constexpr std::size_t column_count = 3;

test::run_plan plan_of(std::string const& protocol, std::string const& on_loss,
                       test::words const& options = {}) {
  test::run_plan plan;
  plan.workers = 2;
  plan.program = test::program_of(protocol);
  plan.options = {"--protocol", protocol, "--clocks", "1000000", "--columns", std::to_string(column_count)};
  plan.options.insert(plan.options.end(), options.begin(), options.end());
  plan.settings = test::notices_losses(on_loss);
  return plan;
}
test::run_plan endless(std::string const& protocol, std::string const& on_loss) {
  return plan_of(protocol, on_loss, {"--pause", "2000", "--tells", "yes"});
}
/// Held before its last steps.
test::run_plan with_an_end(std::string const& protocol) {
  test::run_plan plan =
      plan_of(protocol, "go-on", {"--pause", "3000", "--tells", "yes", "--steps", std::to_string(steps)});
  plan.held_at = steps - 50;
  return plan;
}

/// Runs of such protocols, side by side: for most of the time they pause.
template <class MakePlan>
std::vector<std::unique_ptr<test::process_run>> runs_of_each(MakePlan make_plan) {
  std::vector<std::unique_ptr<test::process_run>> all;
  for (std::string const protocol : {"adsp", "dyn_sgd_cut:1", "con_sgd:1"})
    all.push_back(std::make_unique<test::process_run>(make_plan(protocol)));
  return all;
}

/// The clocks at which a worker has made a step, or begun one.
std::vector<std::int64_t> clocks_of(test::child const& w, std::uint32_t rank) {
  std::istringstream lines(w.output());
  std::string const name = "clock " + std::to_string(rank) + " ";
  std::vector<std::int64_t> all;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name)) all.push_back(std::stoll(line.substr(name.size())));
  return all;
}

/// Until it has committed, and gone on.
void await_commits(test::child& w, std::uint32_t rank, std::int64_t least) {
  auto const is_there = [&] {
    auto const all = clocks_of(w, rank);
    return !all.empty() && all.back() >= least;
  };
  REQUIRE(test::comes_true([&] { return is_there() || w.has_ended(); }));
  INFO(w.errors());
  REQUIRE(is_there());
}

/// That steps of a lost worker count once at most; a server lacks its last commit if only the other
/// has it, and the report says so.
void check_lost_as_reported(test::child const& w, std::size_t worker, std::int64_t least, std::int64_t most) {
  bool const differ = test::spread_of_lost(w, worker, column_count, least, most) != 0;
  CHECK(differ == (w.value("partly_folded") != "0"));
}

}  // namespace

TEST_CASE("a killed worker ends the run, whatever the protocol", "[process][loss]") {
  auto const runs = runs_of_each([](auto const& p) { return endless(p, "end"); });
  for (auto const& run : runs) {
    await_commits(run->worker(1), 1, 2);
    run->worker(1).send(SIGKILL);
    std::string const name = "worker 1 (process " + std::to_string(run->worker(1).id()) + ") was lost";
    for (test::child* const c : {&run->worker(0), &run->server(0), &run->server(1), &run->coordinator()})
      check_error(*c, name);
  }
}

TEST_CASE("the others go on without a killed worker, whatever the protocol", "[process][loss]") {
  std::string const protocol = GENERATE("adsp", "dyn_sgd_cut:1", "con_sgd:1");
  INFO(protocol);
  test::process_run run(with_an_end(protocol));
  await_commits(run.worker(1), 1, 2);
  run.worker(1).send(SIGKILL);
  test::await_loss(run);
  run.let_go();
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed == "worker 1: 137\n");
  auto const made = clocks_of(run.worker(1), 1);
  // Under ADSP every clock begins with a read at all servers, which have all before it by then.
  std::int64_t const least =
      protocol == "adsp" ? std::ranges::count_if(made, [&](auto c) { return c < made.back(); }) : 0;
  CHECK(test::whole(run.worker(0), 0, column_count) == steps);
  check_lost_as_reported(run.worker(0), 1, least, static_cast<std::int64_t>(made.size()));
  CHECK(run.worker(0).value("crashes") == "1");
}

TEST_CASE("a killed server or coordinator ends the run, whatever the protocol", "[process][loss]") {
  std::string const on_loss = GENERATE("end", "go-on");
  auto const server_lost = runs_of_each([&](auto const& p) { return endless(p, on_loss); });
  for (auto const& run : server_lost) {
    await_commits(run->worker(0), 0, 2);
    run->server(1).send(SIGKILL);
    for (std::size_t i = 0; i < 2; ++i) check_error(run->worker(i), "server 1 (");
    check_error(run->coordinator(), "server 1 (");
  }
  auto const coordinator_lost = runs_of_each([&](auto const& p) { return endless(p, on_loss); });
  for (auto const& run : coordinator_lost) {
    await_commits(run->worker(0), 0, 2);
    run->coordinator().send(SIGKILL);
    for (std::size_t i = 0; i < 2; ++i) {
      check_error(run->worker(i), "the coordinator was lost");
      check_error(run->server(i), "the coordinator was lost");
    }
  }
}

TEST_CASE("reconnects under ADSP lose nothing and count nothing twice", "[process][reconnect]") {
  auto plan = plan_of("adsp", "end",
                      {"--threads", "2", "--cuts", "40", "--ballast", "400000", "--columns", "4",
                       "--pause", "500"});
  plan.settings = {};
  test::process_run run(plan);
  test::check_exact_after_cuts(run, 2, 40);
}

// ---- who comes back

TEST_CASE("a worker is let in again at once, though its earlier life might still come back",
          "[process][join]") {
  std::string const protocol = GENERATE("bsp", "adsp", "dyn_sgd_cut:1", "con_sgd:1");
  INFO(protocol);
  auto plan = with_an_end(protocol);
  plan.settings["RUBATO_RECONNECT"] = "300";
  test::process_run run(plan);
  await_commits(run.worker(1), 1, 2);
  run.worker(1).send(SIGKILL);
  CHECK(run.worker(1).wait() == 128 + SIGKILL);
  auto const before = static_cast<std::int64_t>(clocks_of(run.worker(1), 1).size());
  test::child& again = run.start_again(1);
  bool const began = again.prints("began 1 ");
  INFO(run.errors());
  REQUIRE(began);
  run.let_go();
  std::string const failed = run.failures();
  REQUIRE(failed.empty());
  CHECK(test::whole(run.worker(0), 0, column_count) == steps);
  check_lost_as_reported(run.worker(0), 1, steps, before + steps);
  CHECK(again.value("weights") == run.worker(0).value("weights"));
  CHECK_THAT(run.coordinator().errors(), !Contains("did not come back"));
}
