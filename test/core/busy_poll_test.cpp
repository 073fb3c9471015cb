// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/busy_poll.hpp>

#include <catch2/catch.hpp>

using rubato::busy_poll;
using namespace std::chrono_literals;

TEST_CASE("busy_poll: to look pays until four waits in a row were long, and again once one is short") {
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

TEST_CASE("busy_poll: of no length it never does") {
  busy_poll polls(0us);
  CHECK(polls.is_off());
  polls.waited(0us);
  CHECK_FALSE(polls.pays());
  CHECK_FALSE(busy_poll(1us).is_off());
}

TEST_CASE("busy_poll: it looks for what comes, and sleeps when it has looked for long enough") {
  int looked = 0, slept = 0;
  auto const sleep = [&] { ++slept; };
  busy_poll patient(1h);
  patient.wait([&] { return ++looked == 3; }, sleep);
  CHECK(looked == 3);
  CHECK(slept == 0);
  patient.wait([&] { return ++looked, false; }, sleep, busy_poll::clock::now() - 1s);  // once at least
  CHECK(looked == 4);
  CHECK(slept == 1);
  busy_poll(1us).wait([] { return false; }, sleep);
  CHECK(slept == 2);
}

TEST_CASE("busy_poll: it sleeps at once where it does not pay to look") {
  int looked = 0, slept = 0;
  auto const look = [&] { return ++looked != 0; };
  auto const sleep = [&] { ++slept; };
  busy_poll off(0us), tired(1us);
  off.wait(look, sleep);
  for (int i = 0; i < 4; ++i) tired.waited(1s);
  tired.wait(look, sleep);
  CHECK(looked == 0);
  CHECK(slept == 2);
}
