// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/tcp/coordinator_link.hpp>

#include <catch2/catch.hpp>

#include <rubato/net/connection.hpp>
#include <rubato/net/deployment.hpp>

using namespace rubato;

TEST_CASE("a listener lets all processes of a run in at once, and never fewer than usual") {
  net::listener::options const usual;
  net::deployment place;
  place.workers = 2700;
  place.servers = 300;
  auto const large = detail::listener_limits(place);
  CHECK(large.handshakes_per_address == 3000);  // perhaps all from one machine
  CHECK(large.handshakes_max >= 2 * large.handshakes_per_address);  // and some of others
  CHECK(large.connections_max == 6000);
  CHECK(detail::guests_limit(place) == large.handshakes_max);

  place.workers = place.servers = 1;
  auto const small = detail::listener_limits(place);
  CHECK(small.handshakes_per_address == usual.handshakes_per_address);
  CHECK(small.handshakes_max == usual.handshakes_max);
  CHECK(small.connections_max == usual.connections_max);
}
