// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <rubato/net/asio_network.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ends.hpp"
#include "rubato/net/impl/direct_reads.hpp"
#include "rubato/net/impl/stream.hpp"

using namespace rubato;
using namespace rubato::test;
using namespace std::chrono_literals;
using clock_type = net::network::clock;

namespace {

/// How long a network looks before it sleeps: not at all, for as long as usually, and for longer than a test may take.
std::chrono::microseconds looks_for() {
  return GENERATE(std::chrono::microseconds(0), usual_busy_poll, std::chrono::microseconds(1h));
}

}  // namespace

TEST_CASE("a network without anything to do returns at the deadline", "[net]") {
  net::asio_network network(looks_for());
  for (int i = 0; i < 3; ++i) {
    auto const until = clock_type::now() + 5ms;
    network.run_one(until);
    CHECK(clock_type::now() >= until);
  }
  network.poll();
  network.run_one(clock_type::now() - 1s);
}

TEST_CASE("timers ring once, in the order of their times", "[net]") {
  net::asio_network network(looks_for());
  std::vector<int> rung;
  auto const now = clock_type::now();
  auto const second = network.at(now + 2ms, [&] { rung.push_back(2); });
  auto const first = network.at(now + 1ms, [&] { rung.push_back(1); });
  auto const past = network.at(now - 1h, [&] { rung.push_back(0); });
  while (rung.size() < 3) network.run_one();
  CHECK(rung == std::vector<int>{0, 1, 2});
  network.poll();
  CHECK(rung.size() == 3);
}

TEST_CASE("a timer whose handle is gone never rings", "[net]") {
  net::asio_network network;
  auto const past = clock_type::now() - 1s;
  int rung = 0;
  (void)network.at(past, [&] { ++rung; });
  std::shared_ptr<void> one, other;
  // Both are due, and whichever comes first drops the other.
  one = network.at(past, [&] {
    ++rung;
    other.reset();
  });
  other = network.at(past, [&] {
    ++rung;
    one.reset();
  });
  network.run_one(clock_type::now() + 5ms);
  network.run_one(clock_type::now() + 5ms);
  network.run_one(clock_type::now() + 5ms);
  network.poll();
  CHECK(rung == 1);
}

TEST_CASE("a timer may drop its own handle", "[net]") {
  net::asio_network network;
  std::shared_ptr<void> handle;
  bool rung = false;
  handle = network.at(clock_type::now(), [&] {
    handle.reset();
    rung = true;
  });
  while (!rung) network.run_one();
  CHECK(rung);
}

TEST_CASE("what a handler throws passes through, and the network goes on", "[net]") {
  net::asio_network network;
  auto const bad = network.at(clock_type::now() - 2s, [] { throw std::runtime_error("oh"); });
  bool rung = false;
  auto const good = network.at(clock_type::now() - 1s, [&] { rung = true; });
  CHECK_THROWS_WITH(
      [&] {
        for (;;) network.run_one();
      }(),
      "oh");
  while (!rung) network.run_one();
}

TEST_CASE("any thread may interrupt", "[net]") {
  net::asio_network network(looks_for());
  std::atomic<int> asked = 0;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      ++asked;
      network.interrupt();
    }
  });
  // Would hang if one were lost: the last comes after the last increment.
  while (asked < 100) network.run_one();
  other.join();
  network.poll();
  network.interrupt();
  network.run_one();
}

namespace {

/// What the system calls the congestion control of each TCP socket of this process.
std::vector<std::string> congestion_controls() {
  std::vector<std::string> names;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::array<char, 16> name{};
    socklen_t size = name.size();
    int const fd = std::stoi(entry.path().filename());
    if (::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0) names.emplace_back(name.data());
  }
  return names;
}

}  // namespace

TEST_CASE("within a machine no congestion control paces what is sent", "[net]") {
  auto const before = congestion_controls().size();
  pair_of_ends ends;
  ends.open("127.0.0.1:0");
  auto const all = congestion_controls();
  CHECK(all.size() == before + 3);  // the one that listens as well
  CHECK(std::ranges::count(all, "reno") >= 3);
}

// Sockets are tried before the system tells of them (direct_reads).
namespace {

void say(net::connection& to) {
  to.send({.kind = 1}, {});
  to.flush();
}

/// Two ends that have said something to each other, each after the other, as often.
struct talking_ends {
  net::asio_network here;
  net::asio_network there;
  std::unique_ptr<net::listener> listener;
  std::unique_ptr<net::connection> client, server;
  recorder at_client, at_server;
  std::shared_ptr<void> attempt;

  explicit talking_ends(std::chrono::microseconds looks) : here(looks), there(looks) {
    listener = there.listen(net::address::parse("127.0.0.1:0"), {}, {}, [this](auto c) {
      server = std::move(c);
      server->attach(at_server);
    });
    attempt = here.dial(listener->bound(), {}, {}, [this](auto c, std::string const&, bool) {
      client = std::move(c);
      client->attach(at_client);
    });
    REQUIRE(run([this] { return client && server; }));
    at_server.on_end = [this] { say(*server); };
  }
  /// Both networks in turn.
  template <class Condition>
  bool run(Condition done) {
    auto const end = clock_type::now() + patience;
    while (!done() && clock_type::now() < end) {
      here.run_one(clock_type::now());
      there.run_one(clock_type::now());
    }
    return done();
  }
  void check_that_nothing_comes() {
    auto const until = clock_type::now() + 1ms;
    here.run_one(until);
    CHECK(clock_type::now() >= until);
  }
};

}  // namespace

TEST_CASE("what was read before the system told of it wakes nobody again", "[net]") {
  talking_ends ends(looks_for());
  for (std::size_t i = 1; i <= 40; ++i) {  // also when the system has its turn
    say(*ends.client);
    REQUIRE(ends.run([&] { return ends.at_client.ended == i; }));
    ends.check_that_nothing_comes();
  }
}

TEST_CASE("who has waited for room to write is not told of it for ever", "[net]") {
  talking_ends ends(looks_for());
  auto const large = pattern(4 << 20);  // more than the system keeps
  for (net::connection* const one : {ends.client.get(), ends.server.get()}) one->send({.kind = 2}, {}, large);
  ends.at_server.on_end = [] {};
  REQUIRE(ends.run([&] { return ends.at_client.ended == 1 && ends.at_server.ended == 1; }));
  for (std::size_t i = 2; i <= 4; ++i) {
    say(*ends.server);
    REQUIRE(ends.run([&] { return ends.at_client.ended == i; }));
    ends.check_that_nothing_comes();
  }
}

TEST_CASE("who is always answered hears of timers and of who comes", "[net]") {
  talking_ends ends(looks_for());
  auto const at_home = ends.here.listen(net::address::parse("127.0.0.1:0"), {}, {}, [](auto) {});
  raw_socket guest(at_home->bound());
  guest.send(raw_socket::greeting());
  std::optional<std::size_t> rung, greeted;  // after so many answers
  std::size_t& answers = ends.at_client.ended;
  auto const timer = ends.here.at(clock_type::now(), [&] { rung = answers; });
  ends.at_client.on_end = [&] { say(*ends.client); };
  say(*ends.client);
  while (!(rung && greeted) && answers < 1000) {
    ends.there.run_one(clock_type::now());
    ends.here.run_one();
    if (!greeted && !guest.read().empty()) greeted = answers;
  }
  CAPTURE(answers);
  REQUIRE(rung);
  REQUIRE(greeted);
  CHECK(*rung < 32);
  CHECK(*greeted < 64);
}

TEST_CASE("a network goes while nobody has said who it is", "[net]") {
  std::optional<raw_socket> guest;
  auto network = std::make_unique<net::asio_network>();
  auto listener = network->listen(net::address::parse("127.0.0.1:0"), {}, {}, [](auto) {});
  guest.emplace(listener->bound());
  network->run_one(clock_type::now() + 1ms);  // takes it, and waits for its first words
  network->run_one(clock_type::now() + 1ms);
  listener.reset();
  network.reset();
  CHECK(guest->has_ended());
}

TEST_CASE("a stream that is closed does not count", "[net]") {
  namespace local = boost::asio::local;
  boost::asio::io_context context;
  auto const& all = boost::asio::use_service<net::direct_reads>(context);
  std::vector<local::stream_protocol::socket> others;
  std::vector<std::unique_ptr<net::stream>> streams;
  for (int i = 0; i < 3; ++i) {
    local::stream_protocol::socket one(context);
    local::connect_pair(one, others.emplace_back(context));
    one.non_blocking(true);
    streams.push_back(net::plain_stream(std::move(one)));
  }
  CHECK_FALSE(all.pays());
  streams[1]->close();
  CHECK(all.pays());
  streams[0].reset();
  CHECK(all.pays());
}
