// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/tcp.hpp>

#include <catch2/catch.hpp>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/net/log.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>

#include "net/stderr_capture.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

net::deployment place_at(std::string const& path) {
  net::deployment place;
  place.coordinator.path = path;
  place.silence = 10s;
  place.patience = 20s;
  return place;
}

}  // namespace

TEST_CASE("tcp: bad options are refused before anything is started") {
  CHECK_THROWS_AS((tcp{.threads = 0}.check()), option_error);
  net::deployment place = place_at("/nowhere/coordinator");
  place.workers = 0;
  CHECK_THROWS_AS((cluster{tcp{.place = place}, ssp{}, dense<float>{.rows = 1}}), option_error);
}

TEST_CASE("tcp: a process looks before it sleeps for as long as its place says") {
  tcp one{.place = place_at("/nowhere/coordinator")};
  auto const looks_for = [&] { return dynamic_cast<net::asio_network&>(*one.make_network()).poll_for(); };
  CHECK(looks_for() == usual_busy_poll);
  one.place.busy_poll = 7us;
  CHECK(looks_for() == 7us);
  one.place.busy_poll = 0us;
  CHECK(looks_for() == 0us);
}

TEST_CASE("tcp: a process writes its log as its place says") {
  net::deployment place = place_at("/tmp/rubato-tcp-log-" + std::to_string(::getpid()));
  place.as = net::role::coordinator;
  place.logs = net::log_format::keyvalue;
  test::stderr_capture const said;
  cluster const c{tcp{.place = place}, ssp{}, dense<float>{.rows = 1}};
  net::log(net::log_level::warning, "one");
  net::set_log_format(net::log_format::text);
  CHECK_THAT(said.text(), Catch::Matchers::StartsWith("time=") && Catch::Matchers::EndsWith(" message=\"one\"\n"));
}

TEST_CASE("tcp: a process that serves has no parameters to show, and says so") {
  std::string const path = "/tmp/rubato-tcp-test-" + std::to_string(::getpid());
  net::deployment place = place_at(path);
  auto const in_role = [&](net::role as, auto use) {
    return std::thread([place, as, use]() mutable {
      place.as = as;
      cluster c{tcp{.place = place}, ssp{.staleness = 1}, dense<float>{.rows = 5}};
      use(c);
    });
  };
  std::thread coordinator = in_role(net::role::coordinator, [](auto& c) { c.run([](auto&) {}); });
  bool refused = false;
  std::thread server = in_role(net::role::server, [&refused](auto& c) {
    c.run([](auto&) {});
    try {
      (void)c.parameters();
    } catch (usage_error const& e) {
      refused = e.code() == errc::stale_handle;
    }
  });
  {
    cluster c{tcp{.place = place, .threads = 2}, ssp{.staleness = 1}, dense<float>{.rows = 5}};
    auto const report = c.run([](auto& worker) {
      for (int i = 0; i < 3; ++i) {
        worker.push(std::vector<float>(5, 1.0F));
        worker.step();
      }
    });
    CHECK(report.updates == 6);
    CHECK(report.workers.size() == 2);
    CHECK(c.updates() == 6);
    CHECK(c.parameters() == std::vector<float>(5, 6));
    CHECK_THROWS_AS(c.add_worker(), usage_error);
  }
  server.join();
  coordinator.join();
  CHECK(refused);
}

TEST_CASE("tcp: a thread in the background sends and receives while workers compute") {
  std::size_t const rows = GENERATE(std::size_t{5}, std::size_t{2'000'000});
  std::uint32_t const threads = GENERATE(1U, 2U);
  std::string const path = "/tmp/rubato-tcp-background-" + std::to_string(::getpid());
  net::deployment place = place_at(path);
  auto const in_role = [&](net::role as) {
    return std::thread([place, as, rows]() mutable {
      place.as = as;
      cluster c{tcp{.place = place}, ssp{.staleness = 1}, dense<float>{.rows = rows}};
      c.run([](auto&) {});
    });
  };
  std::thread coordinator = in_role(net::role::coordinator);
  std::thread server = in_role(net::role::server);
  std::atomic<int> wrong = 0;
  {
    cluster c{tcp{.place = place, .threads = threads, .background = true}, ssp{.staleness = 1},
              dense<float>{.rows = rows}};
    auto const report = c.run([&](auto& worker) {
      std::vector<float> x(rows);
      std::vector<float> const ones(rows, 1.0F);
      for (int i = 0; i < 6; ++i) {
        if (i % 3 == 0) worker.prefetch();
        std::this_thread::sleep_for(1ms);
        worker.pull(x);
        // All others are at most two clocks behind, and all of them together as far ahead.
        if (x.front() < static_cast<float>(i) || x.back() > static_cast<float>(6 * threads)) ++wrong;
        worker.push(ones);
        worker.step();
      }
    });
    CHECK(report.updates == 6 * threads);
    CHECK(wrong == 0);
    CHECK(c.parameters() == std::vector<float>(rows, static_cast<float>(6 * threads)));
  }
  server.join();
  coordinator.join();
}
