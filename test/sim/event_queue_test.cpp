// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/sim/event_queue.hpp>

#include <rubato/core/random.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using rubato::duration;
using rubato::option_error;
using rubato::random_stream;
using rubato::time_point;
using rubato::sim::event_queue;

namespace {

// Random pushes and pops against a set ordered by (time, number of the push).
template <class Queue>
void compare_with_sorted_set(Queue& queue, std::size_t pending_max, std::uint64_t spread,
                             random_stream& random) {
  std::set<std::pair<time_point, int>> reference;
  for (int pushed = 0; pushed < 20'000 || !queue.empty();) {
    bool const may_push = pushed < 20'000 && queue.size() < pending_max;
    if (may_push && (queue.empty() || random.chance(0.55))) {
      // Some take as long as one another, so that they leave in the order in which they come, or nearly.
      bool const in_turn = random.chance(0.5);
      std::uint64_t const usual = spread / 2 + (random.chance(0.1) ? random.below(spread) : 0);
      time_point const at = queue.now() + duration(in_turn ? usual : random.below(spread));
      if (in_turn) queue.push_in_turn(at, pushed);
      else queue.push(at, pushed);
      reference.emplace(at, pushed++);
    } else {
      auto const [at, number] = *reference.begin();
      reference.erase(reference.begin());
      REQUIRE(queue.next_time() == at);
      REQUIRE(queue.top() == number);
      if (!reference.empty()) REQUIRE(queue.second() == reference.begin()->second);
      REQUIRE(queue.pop() == number);
      REQUIRE(queue.now() == at);
    }
    REQUIRE(queue.size() == reference.size());
  }
}

}  // namespace

TEST_CASE("events leave in the order of time", "[sim][event_queue]") {
  event_queue<std::string> queue;
  CHECK(queue.empty());
  CHECK(queue.now() == time_point());
  queue.push(time_point(2ms), "second");
  queue.push(time_point(3ms), "third");
  queue.push(time_point(1ms), "first");
  CHECK(queue.size() == 3);
  CHECK(queue.top() == "first");
  CHECK(queue.next_time() == time_point(1ms));
  CHECK(queue.now() == time_point());
  CHECK(queue.pop() == "first");
  CHECK(queue.now() == time_point(1ms));
  CHECK(queue.pop() == "second");
  CHECK(queue.pop() == "third");
  CHECK(queue.empty());
  CHECK(queue.now() == time_point(3ms));
}

TEST_CASE("events of one time leave in the order of their pushes", "[sim][event_queue]") {
  event_queue<int> queue;
  for (int i = 0; i < 1000; ++i) queue.push(time_point(duration(i % 2)), i);
  for (int i = 0; i < 1000; i += 2) CHECK(queue.pop() == i);
  for (int i = 1; i < 1000; i += 2) CHECK(queue.pop() == i);
}

TEST_CASE("an event pushed for now comes after those already there", "[sim][event_queue]") {
  event_queue<int> queue;
  queue.push(time_point(1ms), 1);
  queue.push(time_point(1ms), 2);
  CHECK(queue.pop() == 1);
  queue.push(queue.now(), 3);
  CHECK(queue.pop() == 2);
  CHECK(queue.pop() == 3);
}

TEST_CASE("who is pushed in turn and is not leaves at its time all the same", "[sim][event_queue]") {
  event_queue<int> queue;
  queue.push_in_turn(time_point(2ms), 2);
  queue.push_in_turn(time_point(4ms), 5);
  queue.push_in_turn(time_point(1ms), 1);
  queue.push(time_point(3ms), 4);
  queue.push_in_turn(time_point(2ms), 3);
  queue.push_in_turn(time_point(4ms), 6);
  CHECK(queue.size() == 6);
  for (int i = 1; i <= 6; ++i) {
    CHECK(queue.top() == i);
    CHECK(queue.pop() == i);
  }
  CHECK(queue.empty());
  CHECK(queue.now() == time_point(4ms));
}

TEST_CASE("the past cannot change", "[sim][event_queue]") {
  event_queue<int> queue;
  CHECK_THROWS_AS(queue.push_in_turn(time_point(-1ns), 0), option_error);
  CHECK_THROWS_AS(queue.push(time_point(-1ns), 0), option_error);
  queue.push(time_point(5ns), 1);
  queue.pop();
  CHECK_THROWS_WITH(queue.push(time_point(4ns), 2),
                    "event_queue: an event was pushed for 4 ns, but the clock is at 5 ns already; "
                    "events must not lie in the past");
  CHECK(queue.empty());
  queue.push(time_point::max(), 3);
  CHECK(queue.pop() == 3);
}

TEST_CASE("the queue agrees with a sorted set", "[sim][event_queue]") {
  random_stream random(GENERATE(1u, 2u, 3u));
  auto const spread = GENERATE(std::uint64_t{1}, std::uint64_t{5}, std::uint64_t{1'000'000});
  event_queue<int> queue;
  compare_with_sorted_set(queue, 3000, spread, random);
}

TEST_CASE("the order survives the numbering's starting over", "[sim][event_queue]") {
  random_stream random(4);
  event_queue<int, 56> queue;  // 256 numbers: start over every 256 pushes or sooner
  compare_with_sorted_set(queue, 200, 5, random);
}

TEST_CASE("too many pending events are refused", "[sim][event_queue]") {
  event_queue<int, 3> queue;
  for (int i = 0; i < 8; ++i) queue.push(time_point(1ms), i);
  CHECK_THROWS_AS(queue.push(time_point(1ms), 8), std::length_error);
  for (int i = 0; i < 8; ++i) CHECK(queue.pop() == i);
  queue.push(time_point(1ms), 9);
  CHECK(queue.pop() == 9);
}

TEST_CASE("events need only be movable", "[sim][event_queue]") {
  event_queue<std::unique_ptr<int>> queue;
  queue.reserve(4);
  for (int i = 9; i >= 0; --i) queue.push(time_point(duration(i)), std::make_unique<int>(i));
  queue.push_in_turn(time_point(duration(10)), std::make_unique<int>(10));
  for (int i = 0; i <= 10; ++i) CHECK(*queue.pop() == i);
}
