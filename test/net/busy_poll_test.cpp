// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/net/busy_poll.hpp>

#include <catch2/catch.hpp>

using rubato::net::busy_poll;
using namespace std::chrono_literals;

TEST_CASE("busy_poll: to look pays until four waits in a row were long, and again once one is short", "[net]") {
  busy_poll polls(50us);
  for (int i = 0; i < 3; ++i) polls.waited(10ms);
  CHECK(polls.pays());
  polls.waited(10ms);
  CHECK_FALSE(polls.pays());
  polls.waited(101us);
  CHECK_FALSE(polls.pays());
  polls.waited(100us);  // of which up to half may have been to wake up
  CHECK(polls.pays());
  for (int i = 0; i < 3; ++i) polls.waited(10ms);
  polls.waited(1us);
  for (int i = 0; i < 3; ++i) polls.waited(10ms);
  CHECK(polls.pays());
  CHECK(polls.length() == 50us);
}

TEST_CASE("busy_poll: of no length it never does", "[net]") {
  busy_poll polls(0us);
  CHECK(polls.is_off());
  polls.waited(0us);
  CHECK_FALSE(polls.pays());
  CHECK_FALSE(busy_poll(1us).is_off());
}
