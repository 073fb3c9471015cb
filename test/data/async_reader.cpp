// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/async_reader.hpp>
#include <rubato/data/data_store.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

using rubato::data::async_reader;
using rubato::data::data_store;

namespace {

/// 0, 1, … below `end`, and how many there have been.
struct counter {
  int end;
  std::atomic<int> called = 0;
  std::optional<int> operator()() {
    int const n = called++;
    return n < end ? std::optional(n) : std::nullopt;
  }
};

}  // namespace

// ---- async_reader

TEST_CASE("an async reader hands out all, in order, and then nothing") {
  counter numbers{.end = 100};
  async_reader<int> reader([&] { return numbers(); }, 3);
  for (int i = 0; i < 100; ++i) CHECK(reader.next() == i);
  CHECK_FALSE(reader.next());
  CHECK_FALSE(reader.next());
}

TEST_CASE("an async reader reads ahead, but no further than it may") {
  counter numbers{.end = 100};
  async_reader<int> reader([&] { return numbers(); }, 3);
  for (int taken = 0; taken < 50; ++taken) {
    while (numbers.called < taken + 3) std::this_thread::yield();  // it goes on while nobody asks
    CHECK(numbers.called == taken + 3);
    CHECK(reader.next() == taken);
  }
}

TEST_CASE("items of an async reader that many threads take go to one of them each") {
  counter numbers{.end = 2000};
  async_reader<int> reader([&] { return numbers(); }, 2);
  std::atomic<long> sum = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        while (auto const n = reader.next()) sum += *n;
      });
  }
  CHECK(sum == 2000L * 1999 / 2);
}

TEST_CASE("what an async reader's source throws comes after what it gave, and to everybody") {
  int given = 0;
  async_reader<int> reader(
      [&]() -> std::optional<int> {
        if (given == 2) throw std::runtime_error("the disk is gone");
        return given++;
      },
      10);
  CHECK(reader.next() == 0);
  CHECK(reader.next() == 1);
  CHECK_THROWS_WITH(reader.next(), "the disk is gone");
  CHECK_THROWS_WITH(reader.next(), "the disk is gone");
}

TEST_CASE("an async reader may go before it is read to the end") {
  counter numbers{.end = 1'000'000};
  {
    async_reader<int> const reader([&] { return numbers(); }, 5);
    while (numbers.called < 5) std::this_thread::yield();
  }
  CHECK(numbers.called == 5);
  CHECK_THROWS_AS(async_reader<int>([] { return std::nullopt; }, 0), rubato::option_error);
}

// ---- data_store

TEST_CASE("a data store loads once, while somebody holds it") {
  data_store<std::vector<int>> store;
  std::atomic<int> loads = 0;
  auto const load = [&] {
    ++loads;
    std::this_thread::yield();
    return std::vector<int>{1, 2, 3};
  };
  std::vector<std::shared_ptr<std::vector<int> const>> held(4);
  {
    std::vector<std::jthread> workers;
    for (auto& one : held) workers.emplace_back([&] { one = store.get("a", load); });
  }
  CHECK(loads == 1);
  for (auto const& one : held) CHECK(one == held[0]);
  CHECK(*held[0] == std::vector<int>{1, 2, 3});
  CHECK(store.has("a"));
  CHECK_FALSE(store.has("b"));
  (void)store.get("b", load);
  CHECK(loads == 2);
  held.clear();
  CHECK_FALSE(store.has("a"));
  (void)store.get("a", load);
  CHECK(loads == 3);
}

TEST_CASE("who has waited for what could not be loaded loads it") {
  data_store<int> store;
  std::atomic<int> loads = 0, failed = 0;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 3; ++i)
      workers.emplace_back([&] {
        try {
          (void)store.get("a", [&]() -> int {
            if (loads++ < 2) throw std::runtime_error("not yet");
            return 7;
          });
        } catch (std::runtime_error const&) {
          ++failed;
        }
      });
  }
  CHECK(failed == 2);
  CHECK(loads == 3);
}
