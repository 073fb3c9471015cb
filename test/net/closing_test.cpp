// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// How a connection ends: by its owner, from inside a callback or not, and when nothing is heard.
#include <catch2/catch.hpp>
#include <rubato/net/impl/silence_meter.hpp>

#include "ends.hpp"

using namespace rubato;
using namespace rubato::test;
using Catch::Contains;

TEST_CASE("an owner may close or destroy its connection from inside a callback", "[net]") {
  pair_of_ends ends;
  ends.open();
  bool const destroys = GENERATE(false, true);
  int calls = 0;
  auto const leave = [&] {
    ++calls;
    if (destroys)
      ends.accepted.clear();
    else
      ends.server().close();
  };
  std::size_t received = 1;
  SECTION("end") { ends.at_server.on_end = leave; }
  SECTION("drained") {
    ends.at_server.on_drained = leave;
    received = 2;
  }
  SECTION("writable") {
    ends.at_server.on_writable = leave;
    ends.server().send({.kind = 1}, {}, pattern(300'000));
    received = 2;
  }
  ends.client->send({.kind = 1}, {}, pattern(50));
  ends.client->send({.kind = 1}, {}, pattern(60));
  ends.client->flush();
  REQUIRE(ends.until([&] { return calls == 1 && ends.at_client.is_closed(); }));
  CHECK(ends.at_server.ended <= received);
  CHECK(ends.at_server.reasons.empty());
  CHECK_THAT(ends.at_client.reason(), Contains("closed"));
}

TEST_CASE("a connection may be destroyed while it is told that it is closed", "[net]") {
  pair_of_ends ends;
  ends.open();
  ends.at_server.on_closed = [&] { ends.accepted.clear(); };
  ends.client->close();
  CHECK_FALSE(ends.client->is_open());
  REQUIRE(ends.until([&] { return ends.accepted.empty(); }));
  ends.client->send({.kind = 1}, {}, pattern(50));
  ends.client->flush();
  CHECK(ends.client->unsent() == 0);
  ends.network.poll();
  CHECK(ends.at_client.reasons.empty());
}

TEST_CASE("what was sent before a close arrives", "[net]") {
  pair_of_ends ends;
  ends.open();
  ends.client->send({.kind = 1, .sequence = 77}, {}, pattern(50'000));
  ends.client.reset();
  REQUIRE(ends.until([&] { return ends.at_server.is_closed(); }));
  REQUIRE(ends.at_server.ended == 1);
  CHECK(ends.at_server.frames[0].body == pattern(50'000));
}

TEST_CASE("heartbeats keep a connection open on which nothing is sent", "[net]") {
  pair_of_ends ends;
  ends.limits.silence = 100ms;
  ends.open();
  bool up = false;
  auto const timer = ends.network.at(net::network::clock::now() + 300ms, [&] { up = true; });
  REQUIRE(ends.until([&] { return up; }));
  CHECK_FALSE(ends.at_client.is_closed());
  CHECK_FALSE(ends.at_server.is_closed());
  CHECK(ends.at_server.frames.empty());
  CHECK(ends.at_server.drained_calls == 0);
}

TEST_CASE("a peer that falls silent is noticed", "[net]") {
  log_capture const log;
  pair_of_ends ends;
  ends.limits.silence = 100ms;
  ends.listen();
  raw_socket silent(ends.listener->bound());
  silent.greet(ends.network);
  auto const start = net::network::clock::now();
  REQUIRE(ends.until([&] { return ends.at_server.is_closed(); }));
  CHECK(net::network::clock::now() - start >= 90ms);
  CHECK_THAT(ends.at_server.reason(), Contains("nothing was heard for 0.1 s"));
}

TEST_CASE("time in which the network was not run is no silence", "[net]") {
  net::silence_meter meter(800ms);
  net::silence_meter::clock::time_point now;
  meter.start(now);
  auto const check = [&](std::chrono::milliseconds after, bool heard) {
    now += after;
    return meter.too_long(now, heard);
  };
  CHECK(meter.due() == now + 100ms);
  SECTION("eight checks in a row without a sound are one") {
    for (int i = 0; i < 7; ++i) CHECK_FALSE(check(100ms, false));
    CHECK(check(100ms, false));
  }
  SECTION("a sound begins anew") {
    for (int i = 0; i < 7; ++i) CHECK_FALSE(check(100ms, false));
    CHECK_FALSE(check(100ms, true));
    for (int i = 0; i < 7; ++i) CHECK_FALSE(check(100ms, false));
    CHECK(check(100ms, false));
  }
  SECTION("so does a check that is late") {
    for (int i = 0; i < 7; ++i) CHECK_FALSE(check(100ms, false));
    CHECK_FALSE(check(10s, false));
    for (int i = 0; i < 7; ++i) CHECK_FALSE(check(100ms, false));
    CHECK(check(100ms, false));
  }
  SECTION("and one who looks rarely never judges") {
    for (int i = 0; i < 50; ++i) CHECK_FALSE(check(1s, false));
  }
}
