// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// How long slowed workers pause for.
#include <catch2/catch.hpp>
#include <chrono>
#include <limits>
#include <rubato/transport/threads/slow_motion.hpp>

using rubato::duration;
using rubato::slow_motion;
using namespace std::chrono_literals;

TEST_CASE("slow motion: a pause is as long as is missing", "[transport]") {
  slow_motion slowed(4);
  REQUIRE(slowed);
  CHECK(slowed.pause_after(10us) == 30us);
  slowed.paused_for(30us);
  CHECK(slowed.pause_after(1s) == 3s);
}

TEST_CASE("slow motion: who is as fast as it can be does not pause", "[transport]") {
  CHECK_FALSE(slow_motion());
  CHECK_FALSE(slow_motion(0.5));
  CHECK(slow_motion(1).pause_after(1s) == 0s);
}

TEST_CASE("slow motion: pauses that last longer than asked for take as long on the whole", "[transport]") {
  slow_motion slowed(2);
  duration busy{}, paused{};
  for (int step = 0; step < 1000; ++step) {
    busy += 70us;
    if (duration const asked = slowed.pause_after(70us); asked > 0us) {
      slowed.paused_for(asked + 60us);
      paused += asked + 60us;
    }
  }
  CHECK(paused >= busy);
  CHECK(paused - busy <= 60us);
}

TEST_CASE("slow motion: a pause that was cut short is made up for", "[transport]") {
  slow_motion slowed(2);
  CHECK(slowed.pause_after(10ms) == 10ms);
  slowed.paused_for(4ms);
  CHECK(slowed.pause_after(1ms) == 7ms);
}

TEST_CASE("slow motion: a machine that was away is not made up for", "[transport]") {
  slow_motion slowed(2);
  slowed.paused_for(10s);
  CHECK(slowed.pause_after(3ms) == 2ms);
}

TEST_CASE("slow motion: no clock overflows", "[transport]") {
  slow_motion slowed(std::numeric_limits<double>::max());
  for (int i = 0; i < 3; ++i) {
    CHECK(slowed.pause_after(1h) == slow_motion::pause_max);
    slowed.paused_for(1us);
  }
}
