// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/time.hpp>

#include <catch2/catch.hpp>

#include <limits>
#include <type_traits>

using namespace std::chrono_literals;
using rubato::duration;
using rubato::time_point;

template <class T>
concept has_now = requires {
  T::now();
};

static_assert(!has_now<time_point>);
static_assert(!std::is_convertible_v<duration, time_point>);
static_assert(sizeof(time_point) == 8 && std::is_trivially_copyable_v<time_point>);

TEST_CASE("time_point counts from the start of the run", "[core][time]") {
  constexpr time_point start;
  constexpr time_point later = start + 3ms;
  static_assert(later.since_start() == 3ms && later - start == 3ms && start < later);
  CHECK(later - 1ms == time_point(2ms));
  CHECK(1ms + later == time_point(4ms));
  time_point t = later;
  t += 1ns;
  CHECK(t > later);
  t -= 1ns;
  CHECK(t == later);
}

TEST_CASE("time_point saturates: never stays never", "[core][time]") {
  CHECK(time_point::max() + 1ns == time_point::max());
  CHECK(time_point::min() - 1ns == time_point::min());
  CHECK(time_point::min() + -1ns == time_point::min());
  CHECK(time_point::max() - -1ns == time_point::max());
  CHECK(time_point::max() - time_point::min() == duration::max());
  CHECK(time_point::min() - time_point::max() == duration::min());
  CHECK(time_point::max() - 1ns < time_point::max());
}

TEST_CASE("seconds rounds to the nearest nanosecond", "[core][time]") {
  CHECK(rubato::seconds(1.5) == 1500ms);
  CHECK(rubato::seconds(0.1) == 100ms);
  CHECK(rubato::seconds(-0.1) == -100ms);
  CHECK(rubato::seconds(1.4e-9) == 1ns);
  CHECK(rubato::seconds(1.6e-9) == 2ns);
  CHECK(rubato::seconds(-1.6e-9) == -2ns);
  CHECK(rubato::seconds(0.49999999999999994e-9) == 0ns);
  CHECK(rubato::seconds(1e10) == duration::max());
  CHECK(rubato::seconds(-std::numeric_limits<double>::infinity()) == duration::min());
  CHECK(rubato::seconds(std::numeric_limits<double>::quiet_NaN()) == 0ns);
  CHECK(rubato::to_seconds(1500ms) == 1.5);
  CHECK(rubato::seconds(rubato::to_seconds(123456789ns)) == 123456789ns);
}

TEST_CASE("stretch multiplies a duration", "[core][time]") {
  CHECK(rubato::stretch(10ms, 2.5) == 25ms);
  CHECK(rubato::stretch(3ns, 0.5) == 2ns);
  CHECK(rubato::stretch(-3ns, 0.5) == -2ns);
  CHECK(rubato::stretch(duration::max(), 2.0) == duration::max());
}
