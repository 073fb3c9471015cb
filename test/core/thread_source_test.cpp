// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/thread_source.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <mutex>
#include <thread>

using namespace rubato;
using namespace std::chrono_literals;

TEST_CASE("threads of the system run side by side, and wait for one another") {
  thread_source& source = system_threads();
  auto const changed = source.make_condition();
  std::mutex lock;
  int turns = 0;
  auto const here = std::this_thread::get_id();
  auto there = here;
  auto const other = source.start([&] {
    std::unique_lock guard(lock);
    there = std::this_thread::get_id();
    changed->wait(guard, [&] { return turns == 1; });
    turns = 2;
    changed->notify_all();
  });
  {
    std::unique_lock guard(lock);
    turns = 1;
    changed->notify_one();
    changed->wait(guard, [&] { return turns == 2; });
  }
  other->join();
  CHECK(there != here);
}

TEST_CASE("to wait for a time ends by itself") {
  auto const changed = system_threads().make_condition();
  std::mutex lock;
  std::unique_lock guard(lock);
  auto const begin = condition::clock::now();
  while (condition::clock::now() < begin + 2ms) changed->wait_for(guard, 2ms);
  while (condition::clock::now() < begin + 4ms) changed->wait_until(guard, begin + 4ms);
  CHECK(condition::clock::now() >= begin + 4ms);
}
