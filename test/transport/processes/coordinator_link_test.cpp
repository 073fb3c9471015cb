// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/processes/coordinator_link.hpp>

#include <catch2/catch.hpp>
#include <unistd.h>

#include <array>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <rubato/net/address.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/net/connection.hpp>
#include <rubato/net/deployment.hpp>

using namespace rubato;

TEST_CASE("a listener lets all processes of a run in at once, and never fewer than usual") {
  net::listener_options const usual;
  net::deployment place;
  place.workers = 2700;
  place.servers = 300;
  auto const large = detail::listener_limits(place);
  CHECK(large.handshakes_max == 6000);
  CHECK(large.connections_max == 6000);
  CHECK(detail::guests_limit(place) == large.handshakes_max);

  place.workers = place.servers = 1;
  auto const small = detail::listener_limits(place);
  CHECK(small.handshakes_max == usual.handshakes_max);
  CHECK(small.connections_max == usual.connections_max);
}

TEST_CASE("tcp: a server is reached where it listens, by the machine's name, or where it says") {
  net::deployment place;
  place.coordinator = {.host = "127.0.0.1", .port = 1};
  net::address const loopback{.host = "127.0.0.1", .port = 81};
  CHECK(detail::announced(place, net::asio_network(), loopback) == loopback);
  std::array<char, 256> name{};
  REQUIRE(::gethostname(name.data(), name.size() - 1) == 0);
  CHECK(detail::announced(place, net::asio_network(), {.host = "0.0.0.0", .port = 81}) ==
        net::address{.host = name.data(), .port = 81});
  CHECK(detail::announced(place, net::asio_network(), {.host = "::", .port = 81}).host == name.data());
  place.announce = net::address{.host = "far", .port = 7};
  CHECK(detail::announced(place, net::asio_network(), loopback) == *place.announce);
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
  auto const at = detail::announced(place, net::asio_network(), {.host = "0.0.0.0", .port = 81});
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
