// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/tcp.hpp>

#include <catch2/catch.hpp>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>

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

TEST_CASE("tcp: a server is reached where it listens, by the machine's name, or where it says") {
  net::deployment place;
  place.coordinator = {.host = "127.0.0.1", .port = 1};
  net::address const loopback{.host = "127.0.0.1", .port = 81};
  CHECK(detail::announced(place, loopback) == loopback);
  std::array<char, 256> name{};
  REQUIRE(::gethostname(name.data(), name.size() - 1) == 0);
  CHECK(detail::announced(place, {.host = "0.0.0.0", .port = 81}) ==
        net::address{.host = name.data(), .port = 81});
  CHECK(detail::announced(place, {.host = "::", .port = 81}).host == name.data());
  place.announce = net::address{.host = "far", .port = 7};
  CHECK(detail::announced(place, loopback) == *place.announce);
}

TEST_CASE("tcp: a coordinator that is known by a name listens on all networks, if it may") {
  auto const at = [](char const* where, bool beyond) {
    net::deployment place;
    place.coordinator = net::address::parse(where);
    place.keys.beyond_loopback = beyond;
    return detail::listening_as_coordinator(place).text();
  };
  CHECK(at("node7:81", true) == "0.0.0.0:81");
  CHECK(at("node7:81", false) == "node7:81");
  CHECK(at("10.0.0.1:81", true) == "10.0.0.1:81");
  CHECK(at("[2001:db8::1]:81", true) == "[2001:db8::1]:81");
  CHECK(at("localhost:81", true) == "localhost:81");
  CHECK(at("unix:/tmp/somewhere", true) == "unix:/tmp/somewhere");
}

TEST_CASE("tcp: who listens on all addresses is reached by the one that leads to the coordinator") {
  namespace ip = boost::asio::ip;
  net::deployment place;
  place.coordinator = {.host = "192.0.2.99", .port = 9};  // of a network for documentation
  auto const at = detail::announced(place, {.host = "0.0.0.0", .port = 81});
  CHECK(at.port == 81);
  boost::asio::io_context io;
  boost::system::error_code no_number;
  auto const own = ip::make_address(at.host, no_number);
  if (no_number) {
    WARN("not tested: this machine knows no way to others");
    return;
  }
  CHECK_FALSE(own.is_loopback());
  CHECK_NOTHROW(ip::tcp::acceptor(io, {own, 0}));  // an address of this machine
}

TEST_CASE("tcp: bad options are refused before anything is started") {
  CHECK_THROWS_AS((tcp{.threads = 0}.check()), option_error);
  net::deployment place = place_at("/nowhere/coordinator");
  place.workers = 0;
  CHECK_THROWS_AS((cluster{tcp{.place = place}, ssp{}, dense<float>{.rows = 1}}), option_error);
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
