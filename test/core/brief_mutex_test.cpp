// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/brief_mutex.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

using namespace rubato;
using namespace std::chrono_literals;

namespace {

/// Counts without atomicity under the lock, by so many threads at once; their sum.
int counted(brief_mutex& m, int threads, int times) {
  int count = 0;
  {
    std::vector<std::jthread> all;
    for (int t = 0; t < threads; ++t)
      all.emplace_back([&] {
        for (int i = 0; i < times; ++i) {
          std::lock_guard const guard(m);
          ++count;
        }
      });
  }
  return count;
}

}  // namespace

TEST_CASE("brief_mutex: one at a time, however many look for it") {
  brief_mutex m(threading::multiple);
  CHECK(counted(m, 4, 20'000) == 80'000);
}

TEST_CASE("brief_mutex: who has looked often enough waits until it is free") {
  brief_mutex m;
  m.set(threading::multiple);
  std::atomic<bool> is_held = true;
  m.lock();
  CHECK(std::async(std::launch::async, [&] { return !m.try_lock(); }).get());
  std::future<bool> came_in_while_held = std::async(std::launch::async, [&] {
    std::lock_guard const guard(m);
    return is_held.load();
  });
  std::this_thread::sleep_for(20ms);  // longer than anybody looks
  is_held = false;
  m.unlock();
  CHECK_FALSE(came_in_while_held.get());
  CHECK(m.try_lock());
  m.unlock();
}

TEST_CASE("brief_mutex: of one thread it keeps nobody out") {
  brief_mutex m(threading::single);
  m.lock();
  CHECK(m.try_lock());
}
