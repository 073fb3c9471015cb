// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/testing/world.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rubato/net/link.hpp>
#include <rubato/net/log.hpp>
#include <rubato/testing/check_network.hpp>

using namespace rubato;
using namespace std::chrono_literals;
using testing::death;
using testing::simulated_process;
using testing::world;

namespace {

constexpr std::uint16_t known_port = 500;

/// Keeps what arrives.
struct ear final : net::frame_receiver {
  void begin(wire::frame_header const& header, std::span<std::byte const>,
             std::vector<std::span<std::byte>>& body) override {
    arriving.resize(header.length);
    body.emplace_back(arriving);
  }
  void end(wire::frame_header const&) override { lengths.push_back(arriving.size()); }
  void closed(std::string const& reason) override { why = reason; }
  void writable() override { ++rooms; }
  std::vector<std::byte> arriving;
  std::vector<std::size_t> lengths;
  std::optional<std::string> why;
  int rooms = 0;
};

/// Two processes: one listens and hears, the other one talks. What they do is told in their own words.
struct conversation {
  explicit conversation(testing::path_options const& usual = {}, net::connection_options const& limits = {})
      : w(1, usual), options(limits) {
    listener = w.add("listener", [this](simulated_process& p) { listen(p); });
    talker = w.add("talker", [this](simulated_process& p) { talk(p); });
  }

  void listen(simulated_process& p) {
    auto const network = p.network()();
    std::unique_ptr<net::connection> other;
    net::listener_options o;
    static_cast<net::connection_options&>(o) = options;
    auto const door = network->listen({.host = "127.0.0.1", .port = known_port}, {}, o, [&](auto fresh) {
      accepted.push_back(w.now());
      other = std::move(fresh);
      other->attach(heard);
    });
    auto const end = network->now() + 8s;
    while (!heard.why && network->now() < end) network->run_one(end);
    closed_at = w.now();
  }

  void talk(simulated_process& p) {
    auto const network = p.network()();
    std::unique_ptr<net::connection> other;
    bool told = false;
    auto const attempt = network->dial({.host = "127.0.0.1", .port = known_port}, {}, options,
                                       [&](auto made, std::string const& reason, bool) {
                                         told = true;
                                         failure = reason;
                                         other = std::move(made);
                                         if (other) other->attach(answers);
                                       });
    while (!told) network->run_one();
    if (!other) return;
    for (std::size_t const bytes : says) {
      wire::frame_header h;
      h.kind = 1;
      other->send(h, {}, std::vector<std::byte>(bytes));
      other->flush();
      most_unsent = std::max(most_unsent, other->unsent());
    }
    auto const end = network->now() + stays;
    while (!answers.why && network->now() < end) network->run_one(end);
    unsent_at_end = other->unsent();
  }

  world w;
  net::connection_options options;
  testing::process_number listener, talker;
  std::vector<std::size_t> says{10};
  duration stays = 10ms;
  ear heard, answers;
  std::vector<time_point> accepted;
  time_point closed_at{};
  std::string failure;
  std::size_t most_unsent = 0;
  std::size_t unsent_at_end = 0;
};

}  // namespace

TEST_CASE("world: its network is one as links use it", "[world]") {
  net::set_log([](net::log_level, std::string_view) {});
  world w(1);
  CHECK(testing::check_network([&] { return w.outside(); }) == testing::sentences{});
  CHECK(testing::check_network([&] { return w.outside(); }, {.keys = {.token = "a secret"}}) == testing::sentences{});
  world slow(2, {.latency = 3ms, .jitter = 2ms, .bandwidth = 10'000'000, .room = 5000, .piece_max = 700});
  CHECK(testing::check_network([&] { return slow.outside(); }, {.largest = 300'000}) == testing::sentences{});
  net::set_log({});
}

TEST_CASE("world: bytes take the time that the path says", "[world]") {
  conversation c({.latency = 2ms, .bandwidth = 1'000'000});
  c.says = {10'000};
  c.stays = 30ms;
  std::optional<time_point> there;
  c.w.on_event([&] {
    if (!there && !c.heard.lengths.empty()) there = c.w.now();
  });
  REQUIRE(c.w.run(1s));
  CHECK(c.heard.lengths == std::vector<std::size_t>{10'000});
  REQUIRE(there);
  // There and back for the connection and the greetings, and 10 ms at that rate.
  CHECK(there->since_start() >= 2ms * 5 + 10ms);
  CHECK(there->since_start() < 2ms * 8 + 10ms);
}

TEST_CASE("world: what does not fit into a connection waits, until there is room", "[world]") {
  conversation c({.latency = 1ms, .room = 4000});
  c.says = {300'000, 300'000};
  c.stays = 1s;
  REQUIRE(c.w.run(5s));
  CHECK(c.heard.lengths == std::vector<std::size_t>{300'000, 300'000});
  CHECK(c.most_unsent > 500'000);
  CHECK(c.answers.rooms > 0);
}

TEST_CASE("world: while nobody reads, a connection takes what it has room for and no more", "[world]") {
  conversation c({.room = 4000});
  c.says = {300'000};
  c.stays = 100ms;
  c.w.on_event([&, paused = false]() mutable {
    if (!paused && !c.accepted.empty()) c.w.pause(c.listener, 500ms), paused = true;
  });
  REQUIRE(c.w.run(5s));
  CHECK(c.unsent_at_end > 290'000);
}

TEST_CASE("world: a connection that is cut after so many bytes brings those and no more", "[world]") {
  conversation c;
  c.says = {100, 5000};
  c.w.on_event([&] {
    if (!c.accepted.empty() && c.w.now() == c.accepted.front()) c.w.cut_after(c.talker, c.listener, 1000);
  });
  REQUIRE(c.w.run(1s));
  CHECK(c.heard.lengths == std::vector<std::size_t>{100});
  CHECK(c.heard.why.value().find("reset") != std::string::npos);
  CHECK(c.answers.why.value().find("reset") != std::string::npos);
}

TEST_CASE("world: who is killed leaves what it had sent, and its connections close", "[world]") {
  conversation c;
  c.stays = 1s;
  c.w.at(20ms, [&] { c.w.kill(c.talker, death::closes); });
  REQUIRE(c.w.run(5s));
  CHECK(c.heard.lengths == std::vector<std::size_t>{10});
  CHECK(c.closed_at < time_point(25ms));
  auto const ends = c.w.ends();
  REQUIRE(ends.size() == 2);
  CHECK(ends[c.talker].killed);
  CHECK_FALSE(c.w.is_alive(c.talker));
}

TEST_CASE("world: of a machine that vanishes the others hear nothing, and give it up", "[world]") {
  net::connection_options limits;
  limits.silence = 50ms;
  conversation c({}, limits);
  c.stays = 1s;
  c.w.at(20ms, [&] { c.w.kill(c.talker, death::vanishes); });
  REQUIRE(c.w.run(5s));
  CHECK(c.heard.why.value().find("nothing was heard") != std::string::npos);
  CHECK(c.closed_at >= time_point(60ms));
}

TEST_CASE("world: a partition holds back one direction, and then lets through", "[world]") {
  net::connection_options limits;
  limits.silence = 50ms;
  conversation c({}, limits);
  c.stays = 300ms;
  SECTION("for long") {
    c.w.at(20ms, [&] { c.w.block(c.talker, c.listener, 1s); });
    REQUIRE(c.w.run(5s));
    CHECK(c.heard.why.value().find("nothing was heard") != std::string::npos);
    CHECK(c.answers.why.value().find("closed by the peer") != std::string::npos);  // that way it goes
  }
  SECTION("for a moment") {
    c.w.at(20ms, [&] { c.w.block(c.talker, c.listener, 30ms); });
    REQUIRE(c.w.run(5s));
    CHECK(c.closed_at >= time_point(300ms));
  }
}

TEST_CASE("world: a break that one end does not notice is noticed by its silence", "[world]") {
  net::connection_options limits;
  limits.silence = 50ms;
  conversation c({}, limits);
  c.stays = 1s;
  c.w.at(20ms, [&] { CHECK(c.w.cut_unnoticed(c.talker, c.listener) == 1); });
  REQUIRE(c.w.run(5s));
  CHECK(c.answers.why.value().find("reset") != std::string::npos);
  CHECK(c.heard.why.value().find("nothing was heard") != std::string::npos);
}

TEST_CASE("world: who stands still has what came meanwhile when it goes on", "[world]") {
  conversation c;
  c.says = {10, 20};
  c.w.at(10us, [&] { c.w.pause(c.listener, 40ms); });
  c.stays = 100ms;
  REQUIRE(c.w.run(5s));
  CHECK(c.heard.lengths == std::vector<std::size_t>{10, 20});
  CHECK(c.accepted.front() >= time_point(40ms));
}

TEST_CASE("world: connections are refused where nobody listens, and where somebody takes none", "[world]") {
  conversation c;
  SECTION("for a while") { c.w.refuse(c.listener, 10ms); }
  SECTION("since it has been killed") {
    c.w.at(10us, [&] { c.w.kill(c.listener); });
  }
  (void)c.w.run(10s);
  CHECK(c.failure == "127.0.0.1:500: Connection refused");
}

TEST_CASE("world: a handshake that is not answered ends in time", "[world]") {
  net::connection_options limits;
  limits.handshake = 30ms;
  conversation c({}, limits);
  c.w.block(c.listener, c.talker, 1s);
  (void)c.w.run(10s);
  CHECK(c.failure.find("in time") != std::string::npos);
}

TEST_CASE("world: where a machine has gone nobody answers, until another one listens there", "[world]") {
  net::connection_options limits;
  limits.handshake = 30ms;
  conversation c({}, limits);
  SECTION("for good") {
    c.w.at(10us, [&] { c.w.kill(c.listener, death::vanishes); });
    REQUIRE(c.w.run(10s));
    CHECK(c.failure == "127.0.0.1:500: nobody answered in time");
  }
  SECTION("and it comes again") {
    c.w.at(10us, [&] { c.w.kill(c.listener, death::vanishes); });
    c.w.restart(c.listener, 50us);
    REQUIRE(c.w.run(10s));
    CHECK(c.failure.empty());
  }
}

TEST_CASE("world: a listener takes as many connections as its options say", "[world]") {
  net::set_log([](net::log_level, std::string_view) {});
  world w(1);
  auto const there = w.outside();
  auto const here = w.outside();
  std::vector<std::unique_ptr<net::connection>> taken, made;
  std::vector<std::string> failures;
  net::listener_options limits;
  limits.connections_max = 2;
  auto const door = there->listen({.host = "127.0.0.1"}, {}, limits,
                                  [&](auto fresh) { taken.push_back(std::move(fresh)); });
  std::vector<std::shared_ptr<void>> attempts;
  for (int n = 0; n < 3; ++n) {
    std::size_t const told = made.size() + failures.size();
    attempts.push_back(here->dial(door->bound(), {}, {}, [&](auto fresh, std::string const& reason, bool) {
      if (fresh) made.push_back(std::move(fresh));
      else failures.push_back(reason);
    }));
    while (made.size() + failures.size() == told) {
      here->run_one(here->now() + 1ms);
      there->poll();
    }
  }
  CHECK(taken.size() == 2);
  CHECK(made.size() == 2);
  REQUIRE(failures.size() == 1);
  CHECK(failures.front().find(door->bound().text()) == 0);
  taken.pop_back();  // then there is room again
  made.pop_back();
  attempts.push_back(here->dial(door->bound(), {}, {}, [&](auto fresh, std::string const&, bool) {
    if (fresh) made.push_back(std::move(fresh));
  }));
  for (auto const end = here->now() + 1s; made.size() < 2 && here->now() < end; there->poll())
    here->run_one(here->now() + 1ms);
  CHECK(made.size() == 2);
  net::set_log({});
}

TEST_CASE("world: clocks go at the speed that they are given", "[world]") {
  world w(1);
  std::array<duration, 2> passed{};
  for (std::size_t const i : {0U, 1U})
    w.add("process", [&, i](simulated_process& p) {
      auto const network = p.network()();
      auto const begin = network->now();
      w.at(80ms, [&network] { network->interrupt(); });
      network->run_one();
      passed[i] = network->now() - begin;
      p.work(20ms);  // of its own
    });
  w.set_clock(1, 0.5, 1h);
  REQUIRE(w.run(1s));
  CHECK(passed[0] == 80ms);
  CHECK(passed[1] == 40ms);
  auto const ends = w.ends();
  CHECK(ends[0].at == time_point(100ms));
  CHECK(ends[1].at == time_point(120ms));
  CHECK_THROWS_AS(w.set_clock(0, 0), option_error);
}

TEST_CASE("world: threads of a process are fibers that wait for one another in its time", "[world]") {
  world w(1);
  std::vector<int> order;
  w.add("process", [&](simulated_process& p) {
    auto const network = p.network()();
    thread_source& source = network->threads();
    auto const changed = source.make_condition();
    std::mutex lock;
    bool go = false;
    auto const first = source.start([&] {
      std::unique_lock guard(lock);
      changed->wait(guard, [&] { return go; });
      order.push_back(2);
    });
    auto const second = source.start([&] {
      std::unique_lock guard(lock);
      changed->wait_for(guard, 5ms);
      order.push_back(1);
      go = true;
      changed->notify_all();
    });
    first->join();
    second->join();
    order.push_back(3);
  });
  REQUIRE(w.run(1s));
  CHECK(order == std::vector{1, 2, 3});
  CHECK(w.ends().front().at == time_point(5ms));
}

TEST_CASE("world: a process may live again, and says what became of each life", "[world]") {
  world w(1);
  auto const p = w.add("process", [](simulated_process& me) {
    if (me.life() == 0) throw lost_error("the first is lost");
  });
  w.restart(p, 7ms);
  REQUIRE(w.run(1s));
  auto const ends = w.ends();
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].failure == "the first is lost");
  CHECK(ends[0].code == errc::lost);
  CHECK(ends[1].life == 1);
  CHECK(ends[1].failure.empty());
  CHECK(ends[1].at == time_point(7ms));
}

TEST_CASE("world: who waits for what never comes has not ended", "[world]") {
  world w(1);
  w.add("process", [](simulated_process& me) {
    auto const network = me.network()();
    network->run_one(network->now() + 2s);
  });
  CHECK_FALSE(w.run(1s));
  CHECK_FALSE(w.ends().front().ended);
  CHECK(w.run(3s));
}

TEST_CASE("world: the same seed is the same world", "[world]") {
  auto const hash_of = [](std::uint64_t seed, std::byte said = {}) {
    world w(seed, {.latency = 1ms, .jitter = 2ms, .piece_max = 100});
    w.add("listener", [](simulated_process& p) {
      auto const network = p.network()();
      ear heard;
      std::unique_ptr<net::connection> other;
      auto const door =
          network->listen({.host = "127.0.0.1", .port = known_port}, {.token = "secret"}, {}, [&](auto fresh) {
            other = std::move(fresh);
            other->attach(heard);
          });
      while (!heard.why) network->run_one();
    });
    w.add("talker", [said](simulated_process& p) {
      auto const network = p.network()();
      ear answers;
      std::unique_ptr<net::connection> other;
      auto const attempt = network->dial({.host = "127.0.0.1", .port = known_port}, {.token = "secret"}, {},
                                         [&](auto made, std::string const&, bool) { other = std::move(made); });
      while (!other) network->run_one();
      other->attach(answers);
      wire::frame_header h;
      h.kind = 1;
      other->send(h, {}, std::vector<std::byte>(3000, said));
      network->run_one(network->now() + 50ms);
    });
    CHECK(w.run(1s));
    return std::pair(w.hash(), w.events());
  };
  CHECK(hash_of(1) == hash_of(1));  // to the last byte, what the two ends prove to each other included
  CHECK(hash_of(1) != hash_of(2));
  CHECK(hash_of(1, std::byte{7}) != hash_of(1));
  CHECK(hash_of(1, std::byte{7}).second == hash_of(1).second);
}
