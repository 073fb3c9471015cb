// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <rubato/net/reactor.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace rubato;
using namespace std::chrono_literals;
using clock_type = net::reactor::clock;

TEST_CASE("a reactor without anything to do returns at the deadline", "[net]") {
  net::reactor reactor;
  for (int i = 0; i < 3; ++i) {
    auto const until = clock_type::now() + 5ms;
    reactor.run_one(until);
    CHECK(clock_type::now() >= until);
  }
  reactor.poll();
  reactor.run_one(clock_type::now() - 1s);
}

TEST_CASE("timers ring once, in the order of their times", "[net]") {
  net::reactor reactor;
  std::vector<int> rung;
  auto const now = clock_type::now();
  auto const second = reactor.at(now + 2ms, [&] { rung.push_back(2); });
  auto const first = reactor.at(now + 1ms, [&] { rung.push_back(1); });
  auto const past = reactor.at(now - 1h, [&] { rung.push_back(0); });
  while (rung.size() < 3) reactor.run_one();
  CHECK(rung == std::vector<int>{0, 1, 2});
  reactor.poll();
  CHECK(rung.size() == 3);
}

TEST_CASE("a timer whose handle is gone never rings", "[net]") {
  net::reactor reactor;
  auto const past = clock_type::now() - 1s;
  int rung = 0;
  (void)reactor.at(past, [&] { ++rung; });
  std::shared_ptr<void> one, other;
  // Both are due, and whichever comes first drops the other.
  one = reactor.at(past, [&] {
    ++rung;
    other.reset();
  });
  other = reactor.at(past, [&] {
    ++rung;
    one.reset();
  });
  reactor.run_one(clock_type::now() + 5ms);
  reactor.run_one(clock_type::now() + 5ms);
  reactor.run_one(clock_type::now() + 5ms);
  reactor.poll();
  CHECK(rung == 1);
}

TEST_CASE("a timer may drop its own handle", "[net]") {
  net::reactor reactor;
  std::shared_ptr<void> handle;
  bool rung = false;
  handle = reactor.at(clock_type::now(), [&] {
    handle.reset();
    rung = true;
  });
  while (!rung) reactor.run_one();
  CHECK(rung);
}

TEST_CASE("what a handler throws passes through, and the reactor goes on", "[net]") {
  net::reactor reactor;
  auto const bad = reactor.at(clock_type::now() - 2s, [] { throw std::runtime_error("oh"); });
  bool rung = false;
  auto const good = reactor.at(clock_type::now() - 1s, [&] { rung = true; });
  CHECK_THROWS_WITH(
      [&] {
        for (;;) reactor.run_one();
      }(),
      "oh");
  while (!rung) reactor.run_one();
}

TEST_CASE("any thread may interrupt", "[net]") {
  net::reactor reactor;
  std::atomic<int> asked = 0;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      ++asked;
      reactor.interrupt();
    }
  });
  // Would hang if one were lost: the last comes after the last increment.
  while (asked < 100) reactor.run_one();
  other.join();
  reactor.poll();
  reactor.interrupt();
  reactor.run_one();
}
