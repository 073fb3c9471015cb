// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What the tests of processes start.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "process/children.hpp"
#include "seeds.hpp"

using namespace rubato;

// A child that took memory before it is the program would wait for ever for a lock that was held by a thread which it
// lacks: under the address sanitizer, whose locks know nothing of forks.
TEST_CASE("children: programs start while other threads take memory", "[process]") {
  test::scratch const folder;
  std::atomic<bool> over = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&over] {
      while (!over) {
        std::vector<std::unique_ptr<std::byte[]>> all;
        for (std::size_t n = 0; n < 2000; ++n) all.push_back(std::make_unique<std::byte[]>(32));
      }
    });
  struct ending {
    std::atomic<bool>& over;
    ~ending() { over = true; }
  } const at_exit{over};
  std::filesystem::path deep = folder.path();
  for (int i = 0; i < 70; ++i) deep /= std::string(20, 'x');
  std::filesystem::create_directories(deep);
  for (int i = 0; i < (test::sanitized() ? 30 : 100); ++i) {
    test::child one(deep / std::to_string(i), {"/bin/sh", "-c", "exit 7"}, {});
    INFO(one.state());
    REQUIRE(test::comes_true([&] { return one.has_ended(); }));
    REQUIRE(one.wait() == 7);
  }
}
