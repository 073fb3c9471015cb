// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Processes of one machine that share memory: they come to what others come to, and die like others.
#include <catch2/catch.hpp>

#include <signal.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

#include "process/checks.hpp"
#include "process/runs.hpp"

using namespace rubato;
using Catch::Contains;
using test::check_error;

namespace {

/// Of which each server has a part that is worth sharing.
test::run_plan plan_of(bool shares, test::words options) {
  test::run_plan plan{.workers = 3, .servers = 2, .options = {"--weights", "40000"}, .unix_sockets = true};
  plan.leaves_sockets = true;
  plan.options.insert(plan.options.end(), options.begin(), options.end());
  if (!shares) plan.settings["RUBATO_SHARE_MEMORY"] = "0";
  return plan;
}

/// A run that would go on for long, where a lost process is noticed soon.
test::run_plan long_run(std::string const& on_loss, bool shares, int clocks = 100000) {
  auto plan = plan_of(shares, {"--clocks", std::to_string(clocks), "--pause", "2000", "--tells", "yes"});
  for (auto const& [name, value] : test::notices_losses(on_loss)) plan.settings[name] = value;
  return plan;
}

void await_clock(test::child& w, int rank, int clock) {
  INFO(w.errors());
  REQUIRE(w.prints("clock " + std::to_string(rank) + " " + std::to_string(clock) + "\n"));
}

/// Whether the process sees a server's tables.
bool shares_memory(test::child const& c) {
  return test::content_of("/proc/" + std::to_string(c.id()) + "/maps").find("rubato-tables") != std::string::npos;
}

std::size_t sockets_in(std::filesystem::path const& folder) {
  std::size_t count = 0;
  for (auto const& entry : std::filesystem::directory_iterator(folder)) count += entry.is_socket();
  return count;
}

struct result {
  std::string counts, keyed, weights;
  friend bool operator==(result const&, result const&) = default;
};

result result_of(test::run_plan plan) {
  test::process_run run(std::move(plan));
  auto const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  auto const of = [&run](std::size_t i) {
    test::child const& w = run.worker(i);
    return result{w.value("counts"), w.value("keyed"), w.value("weights")};
  };
  CHECK(of(1) == of(0));
  CHECK(of(2) == of(0));
  return of(0);
}

}  // namespace

TEST_CASE("BSP in shared memory is BSP over Unix-domain sockets and TCP, bit for bit", "[process][shm]") {
  result const shared = result_of(plan_of(true, {}));
  CHECK(shared == result_of(plan_of(false, {})));
  auto over_tcp = plan_of(true, {});
  over_tcp.unix_sockets = false;
  CHECK(shared == result_of(over_tcp));
  CHECK_FALSE(shared.weights.empty());
}

TEST_CASE("clusters of one program that follow one another share each one's memory", "[process][shm]") {
  auto const one_after_the_other = [](bool shares) {
    return result_of(plan_of(shares, {"--clusters", "4", "--clocks", "5"}));
  };
  CHECK(one_after_the_other(true) == one_after_the_other(false));
}

TEST_CASE("where the coordinator has a Unix-domain socket, servers have others beside it, and workers see their memory",
          "[process][shm]") {
  bool const shares = GENERATE(true, false);
  test::process_run run(long_run("end", shares));
  await_clock(run.worker(0), 0, 3);
  CHECK(sockets_in(run.folder()) == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(shares_memory(run.worker(i)) == shares);
  run.coordinator().send(SIGTERM);
  run.worker(0).send(SIGKILL);
  (void)run.failures();
}

TEST_CASE("a run in shared memory goes on without a killed worker, and comes to what counts", "[process][shm][loss]") {
  auto plan = long_run("go-on", true, 150);
  plan.held_at = 40;
  test::process_run run(std::move(plan));
  await_clock(run.worker(1), 1, 20);
  CHECK(shares_memory(run.worker(1)));
  run.worker(1).send(SIGKILL);
  test::await_loss(run);
  run.let_go();
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed == "worker 1: 137\n");
  for (std::size_t const i : {0U, 2U}) {
    CHECK(test::whole(run.worker(i), 0, 4) == 150);
    CHECK(test::whole(run.worker(i), 2, 4) == 150);
    CHECK(run.worker(i).value("weights") == run.worker(0).value("weights"));
  }
}

TEST_CASE("a killed server ends a run in shared memory for all, by name", "[process][shm][loss]") {
  test::process_run run(long_run("end", true));
  await_clock(run.worker(0), 0, 5);
  CHECK(shares_memory(run.worker(0)));
  run.server(1).send(SIGKILL);
  for (std::size_t i = 0; i < 3; ++i) check_error(run.worker(i), "server 1 (");
  CHECK(run.server(1).wait() == 128 + SIGKILL);
  check_error(run.server(0), "server 1 (");
  check_error(run.coordinator(), "server 1 (");
}
