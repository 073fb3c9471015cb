// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// One thread at a time has a network, and whoever asks and waits has it for both.
#include <rubato/transport/processes/network_turn.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include <rubato/net/network.hpp>

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
