// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <catch2/catch.hpp>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "asleep.hpp"
#include "src/tools/server/companion.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using server_tool::companion;
using server_tool::coordinator_started;
using server_tool::stop_both;

namespace {

void wait_for(std::atomic<bool> const& what) {
  while (!what) std::this_thread::sleep_for(1ms);
}

/// Coordinates nothing until it is stopped.
auto coordinator_that_calls(std::function<void()> stopped) {
  return [stopped = std::move(stopped)](coordinator_started const& started) {
    std::atomic<bool> over = false;
    auto const until_over = started([&] {
      stopped();
      over = true;
    });
    wait_for(over);
  };
}

/// A server that says when it is stopped.
struct recording_server {
  std::string& events;
  void stop() noexcept { events += "server "; }
  void expect_stop() noexcept { events += "soon "; }
};

}  // namespace

TEST_CASE("a coordinator that ends while it is being stopped stays until that is done, and no longer") {
  std::atomic<bool> is_stopped = false;
  std::atomic<bool> gone = false;
  std::atomic<bool> leaves = false;
  std::atomic<pid_t> its_thread = 0;
  int stops = 0;
  bool gone_meanwhile = false;
  companion coordinator([&](coordinator_started const& started) {
    {
      auto const until_over = started([&] {
        ++stops;
        is_stopped = true;
        // On its way out it sleeps where it is kept, and nowhere else.
        wait_for(leaves);
        while (!gone && !test::thread_status(test::threads_of(getpid()).at(its_thread)).sleeps())
          std::this_thread::yield();
        gone_meanwhile = gone;
      });
      wait_for(is_stopped);
      its_thread = gettid();
      leaves = true;
    }
    gone = true;
  });
  coordinator.stop();
  CHECK_FALSE(gone_meanwhile);
  coordinator.finish();
  CHECK(gone);
  coordinator.stop();  // there is nothing to stop any more
  CHECK(stops == 1);
}

TEST_CASE("why a coordinator could not begin, or go on, is thrown where it is waited for") {
  CHECK_THROWS_WITH(companion([](auto const&) { throw std::runtime_error("taken"); }), "taken");
  companion coordinator([](auto const& started) {
    auto const until_over = started([] {});
    throw std::runtime_error("lost");
  });
  CHECK_THROWS_WITH(coordinator.finish(), "lost");
}

TEST_CASE("who ends a server and its coordinator ends the coordinator first, which would miss the server") {
  std::string events;
  recording_server server{events};
  {
    companion coordinator(coordinator_that_calls([&] { events += "coordinator "; }));
    stop_both(&coordinator, server);
    coordinator.finish();
  }
  CHECK(events == "soon coordinator server ");
  stop_both(nullptr, server);
  CHECK(events == "soon coordinator server soon server ");
}
