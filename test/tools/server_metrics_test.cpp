// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// rubato-server's page of metrics.
#include <catch2/catch.hpp>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "asleep.hpp"
#include "no_more_files.hpp"
#include "process/children.hpp"
#include "rubato/core/error.hpp"
#include "src/tools/server/metrics.hpp"
#include "tools/visitor.hpp"

using namespace rubato;
using Catch::Contains;
using Catch::Matchers::StartsWith;
using test::counters_please;
using test::get;
using test::visitor;

namespace {

/// What this process has computed.
std::chrono::nanoseconds computed() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

}  // namespace

TEST_CASE("the counters are there for Prometheus") {
  server_stats stats;
  server_stats::add(stats.commits, 3);
  server_stats::add(stats.commits, 2);
  server_stats::set(stats.clock, 7);
  std::string const text = server_tool::prometheus_text(stats);
  CHECK(text.find("# TYPE rubato_commits_total counter\nrubato_commits_total 5\n") != std::string::npos);
  CHECK(text.find("# TYPE rubato_clock gauge\nrubato_clock 7\n") != std::string::npos);

  server_tool::metrics_page const page({.host = "127.0.0.1", .port = 0}, {&stats, nullptr});
  std::string const answer = get(page.bound(), counters_please);
  CHECK_THAT(answer, StartsWith("HTTP/1.1 200 OK"));
  CHECK(answer.find("text/plain; version=0.0.4") != std::string::npos);
  CHECK(answer.find(text) != std::string::npos);
  CHECK_THAT(get(page.bound(), "GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n"),
             StartsWith("HTTP/1.1 404"));
  CHECK_THAT(get(page.bound(), "PUT /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
             StartsWith("HTTP/1.1 405"));
  CHECK(get(page.bound(), "no HTTP at all\r\n\r\n").empty());
  CHECK_THROWS_AS(server_tool::metrics_page({.host = "0.0.0.0", .port = 0}, {&stats, nullptr}), option_error);
}

TEST_CASE("a page tells whether workers can be served, and what is missing if not") {
  auto const asked = [](server_tool::metrics_page const& page, std::string const& what) {
    return get(page.bound(), "GET " + what + " HTTP/1.1\r\nHost: x\r\n\r\n");
  };
  server_stats server;
  coordinator_stats coordinator;
  server_stats::set(coordinator.workers_here, 2);
  server_tool::metrics_page const page({.host = "127.0.0.1", .port = 0}, {&server, &coordinator});
  CHECK_THAT(asked(page, "/healthz"), StartsWith("HTTP/1.1 200") && Contains("ok\n"));
  CHECK_THAT(asked(page, "/readyz"), StartsWith("HTTP/1.1 503") && Contains("has not let this server in"));
  server_stats::set(server.ready, 1);
  CHECK_THAT(asked(page, "/readyz"), StartsWith("HTTP/1.1 503") && Contains("0 servers and 2 workers are here"));
  server_stats::set(coordinator.ready, 1);
  CHECK_THAT(asked(page, "/readyz"), StartsWith("HTTP/1.1 200") && Contains("ready\n"));
  CHECK_THAT(asked(page, "/metrics"), Contains("\nrubato_commits_total 0\n") &&
                                          Contains("\nrubato_coordinator_workers 2\n") &&
                                          Contains("# TYPE rubato_resident_bytes gauge\nrubato_resident_bytes "));
}

TEST_CASE("a page of metrics whose process has no more files waits for some") {
  server_stats const stats;
  auto const others = test::threads_of(getpid());
  server_tool::metrics_page const page({.host = "127.0.0.1", .port = 0}, {&stats, nullptr});
  auto its_own = test::threads_of(getpid());
  std::erase_if(its_own, [&](auto const& t) { return others.contains(t.first); });
  REQUIRE(its_own.size() == 1);
  std::ifstream status(its_own.begin()->second / "status");
  auto const naps = [&] {
    return std::stoul("0" + test::thread_status(status)["voluntary_ctxt_switches"]);
  };
  (void)naps();  // clang's checks meet the file's class while there are files, see no_more_files
  visitor waiting;
  std::chrono::nanoseconds took{};
  std::chrono::nanoseconds passed{};
  {
    test::no_more_files const limit;
    auto const began = std::chrono::steady_clock::now();
    auto const before = computed();
    auto const naps_before = naps();
    waiting.connect(page.bound());  // the system takes it; the page cannot
    // It sleeps after each look. One that does not sleep is seen by what it computes.
    while (naps() < naps_before + 5 && took < std::chrono::milliseconds(300)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      took = computed() - before;
    }
    passed = std::chrono::steady_clock::now() - began;
  }
  CHECK(took < passed / 3);
  CHECK_THAT(waiting.asks(counters_please), StartsWith("HTTP/1.1 200 OK"));
}

TEST_CASE("visitors that say nothing take a bounded number of places") {
  server_stats const stats;
  server_tool::metrics_page const page({.host = "127.0.0.1", .port = 0}, {&stats, nullptr});
  {
    std::vector<visitor> idle(64);
    for (auto& v : idle) v.connect(page.bound());
    CHECK(get(page.bound(), counters_please).empty());
  }
  CHECK(test::comes_true([&] { return !get(page.bound(), counters_please).empty(); }));
}
