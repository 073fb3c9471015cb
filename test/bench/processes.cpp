// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Runs across processes, with bodies that need no cluster.
#include "bench/processes/run_processes.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/processes/shared_progress.hpp"
#include "rubato/net/deployment.hpp"

using namespace rubato;
using namespace rubato::bench;
using Catch::Contains;

namespace {

using listener = std::function<void(net::address const&)>;

void say_where(net::deployment const& place, listener const& listens) {
  if (place.as != net::role::worker)
    listens({.host = "127.0.0.1", .port = static_cast<std::uint16_t>(100 + *place.rank)});
}

bool no_child_is_left() { return ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; }

/// What worker 1 dies of in `die` has to be said.
std::string failure_of(std::function<void()> const& die) {
  auto const body = [&](net::deployment const& place, listener const& listens) -> std::string {
    say_where(place, listens);
    if (place.as == net::role::worker && place.rank == 1) die();
    ::pause();
    return "";
  };
  try {
    (void)run_processes({.workers = 2, .servers = 1}, body);
  } catch (process_failure const& failure) {
    return failure.what();
  }
  return "";
}

}  // namespace

TEST_CASE("each process has its place, and what worker 0 finds out comes back") {
  shared_progress all(3);
  auto const body = [&](net::deployment const& place, listener const& listens) -> std::string {
    say_where(place, listens);
    if (place.as == net::role::worker) all.note(*place.rank, 10 + *place.rank, {.wait = 0.5});
    return fmt::format("{} {} of {} and {}, coordinator {}, {}", net::to_string(place.as),
                       *place.rank, place.workers, place.servers, place.coordinator.text(),
                       place.keys.token.empty() ? "open" : "secret");
  };
  std::vector<std::string> heard;
  auto const listening = [&](net::role as, std::uint32_t rank, net::address const& where) {
    heard.push_back(fmt::format("{} {} {}", net::to_string(as), rank, where.text()));
  };
  CHECK(run_processes({.workers = 3, .servers = 2, .listening = listening}, body) ==
        "worker 0 of 3 and 2, coordinator 127.0.0.1:100, secret");
  CHECK(heard == std::vector<std::string>{"coordinator 0 127.0.0.1:100", "server 0 127.0.0.1:100",
                                          "server 1 127.0.0.1:101"});
  CHECK(all.commits() == 3);
  CHECK(all.steps(2) == 12);
  CHECK(all.spent(1).wait == 0.5);
  CHECK(!all.all_done());
  CHECK(no_child_is_left());
}

TEST_CASE("what worker 0 finds out may be long") {
  auto const body = [&](net::deployment const& place, listener const& listens) -> std::string {
    say_where(place, listens);
    return std::string(3'000'000, 'x');
  };
  CHECK(run_processes({}, body).size() == 3'000'000);
}

TEST_CASE("other ways between processes are those that are told") {
  auto const body = [&](net::deployment const& place, listener const& listens) -> std::string {
    say_where(place, listens);
    if (place.as == net::role::server && place.announce->text() != "127.0.0.1:7") return "lost";
    return place.coordinator.text();
  };
  process_plan const plan{
      .coordinator_address = [] { return net::address::parse("127.0.0.1:9"); },
      .server_address = [](std::uint32_t) { return net::address::parse("127.0.0.1:7"); }};
  CHECK(run_processes(plan, body) == "127.0.0.1:9");
}

TEST_CASE("a process that fails is named, and none is left") {
  std::string const thrown = failure_of([] { throw std::runtime_error("no more paper"); });
  CHECK_THAT(thrown, Contains("worker 1 (pid ") && Contains("exit code 1: no more paper"));
  CHECK(no_child_is_left());
  CHECK_THAT(failure_of([] { ::raise(SIGKILL); }),
             Contains("worker 1 (pid ") && Contains("signal 9"));
  CHECK(no_child_is_left());
}
