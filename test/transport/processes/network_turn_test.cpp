// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// One thread at a time has a network, and whoever asks and waits has it for both.
#include <rubato/transport/processes/network_turn.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include <rubato/net/network.hpp>

#include "patience.hpp"

using namespace rubato;
using rubato::detail::network_turn;
using namespace std::chrono_literals;

namespace {

/// One in which something happens whenever somebody looks.
class busy_network final : public net::network {
 public:
  std::function<void()> happens = [] {};

  std::shared_ptr<void> dial(net::address const&, net::security const&, net::connection_options const&,
                             dialed) override {
    return nullptr;
  }
  std::unique_ptr<net::listener> listen(net::address const&, net::security const&, net::listener_options const&,
                                        accepted) override {
    return nullptr;
  }
  std::shared_ptr<void> at(clock::time_point, std::function<void()>) override { return nullptr; }
  [[nodiscard]] clock::time_point now() const override { return clock::now(); }
  void run_one(clock::time_point) override { happens(); }
  void poll() override {}
  void interrupt() noexcept override {}
  [[nodiscard]] std::optional<net::address> reached(net::address const&, net::address const&) const override {
    return std::nullopt;
  }
};

}  // namespace

TEST_CASE("who asks and waits has the turn for both") {
  busy_network network;
  network_turn turn(network);
  bool asked = false, others_could = false;
  int looks = 0;
  network.happens = [&] {
    CHECK(asked);
    ++looks;
    others_could = others_could || turn.try_lock();
  };
  turn.wait_after(
      [&] {
        asked = true;
        others_could = turn.try_lock();
      },
      [&] { return looks == 3; });
  CHECK(looks == 3);
  CHECK_FALSE(others_could);
  CHECK(turn.try_lock());  // given back
}

TEST_CASE("who asks and waits looks for nothing where the answer is there already") {
  busy_network network;
  network_turn turn(network);
  bool done = false;
  network.happens = [] { FAIL("nobody waits"); };
  turn.wait_after([&] { done = true; }, [&] { return done; });
  CHECK(turn.try_lock());
}

TEST_CASE("who asks and waits does not ask in another's turn") {
  busy_network network;
  network_turn turn(network);
  std::atomic<bool> asked = false;
  turn.lock();
  std::thread other([&] { turn.wait_after([&] { asked = true; }, [&] { return asked.load(); }); });
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(asked);
  turn.unlock();
  other.join();
  CHECK(asked);
}

TEST_CASE("the turn is given back by who fails to ask") {
  busy_network network;
  network_turn turn(network);
  CHECK_THROWS_AS(turn.wait_after([] { throw std::runtime_error("no"); }, [] { return false; }), std::runtime_error);
  CHECK(turn.try_lock());
}

namespace {

/// One that answers a while after it has been asked, to whoever looks then.
class answering_network final : public net::network_decorator {
 public:
  answering_network() : network_decorator(std::make_unique<busy_network>()) {}

  void ask() {
    std::lock_guard const guard(lock_);
    due_ = std::chrono::steady_clock::now() + 5ms;
    woken_.notify_all();
  }
  void run_one(clock::time_point) override {
    std::unique_lock guard(lock_);
    while (!interrupted_) {
      if (!due_) {
        woken_.wait(guard);
      } else if (woken_.wait_until(guard, *due_) == std::cv_status::timeout && !interrupted_) {
        due_.reset();
        answered_by = std::this_thread::get_id();
        ++answers;
        return;
      }
    }
    interrupted_ = false;
  }
  void interrupt() noexcept override {
    std::lock_guard const guard(lock_);
    interrupted_ = true;
    woken_.notify_all();
  }

  std::atomic<int> answers = 0;
  std::atomic<std::thread::id> answered_by{};

 private:
  std::mutex lock_;
  std::condition_variable woken_;
  std::optional<std::chrono::steady_clock::time_point> due_;
  bool interrupted_ = false;
};

}  // namespace

TEST_CASE("beside a thread in the background who asks and waits hears the answer itself") {
  answering_network network;
  network_turn turn(network);
  std::atomic<bool> stops = false;
  std::thread background([&] { turn.attend([&] { return stops.load(); }); });
  int own = 0;
  for (int n = 1; n <= 20; ++n) {
    turn.wait_after([&] { network.ask(); }, [&] { return network.answers == n; });
    if (network.answered_by.load() == std::this_thread::get_id()) ++own;
    if (n % 2 == 0) std::this_thread::sleep_for(1ms);  // or the thread in the background has not had its turn again
  }
  CHECK(own >= 15);  // not where the system stops this thread between its asking and waiting
  // While nobody waits it is there for whatever comes, though nobody gives the turn back meanwhile.
  network.ask();
  auto const end = std::chrono::steady_clock::now() + test::patience;
  while (network.answers == 20 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  CHECK(network.answered_by.load() == background.get_id());
  // But it is not while somebody stays, who comes back in a moment.
  int const before = network.answers;
  {
    network_turn::staying const here(turn);
    for (int n = 1; n <= 5; ++n) {
      turn.wait_after([&] { network.ask(); }, [&] { return network.answers == before + n; });
      CHECK(network.answered_by.load() == std::this_thread::get_id());
    }
    {
      std::lock_guard const mine(turn);
      network.ask();
    }
    std::this_thread::sleep_for(50ms);
    CHECK(network.answers == before + 5);
  }
  while (network.answers == before + 5 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  CHECK(network.answered_by.load() == background.get_id());
  stops = true;
  turn.wake();
  background.join();
}
