// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Strangers that hold handshakes, and connections beyond what there is room for.
#include <catch2/catch.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "ends.hpp"
#include "greeted.hpp"
#include "no_more_files.hpp"

using namespace rubato;
using namespace rubato::test;
using Catch::Contains;

TEST_CASE("too many connections are closed at once, and room comes back", "[net]") {
  log_capture const log;
  pair_of_ends ends;
  ends.limits.connections_max = 1;
  ends.open();
  for (int i = 0; i < 3; ++i) {
    raw_socket surplus(ends.listener->bound());
    CHECK(surplus.sees_end(ends.network));
  }
  // Who is refused tries again soon: that must not fill the log.
  CHECK(count_of("1 connections are open already", log.warnings()) == 1);
  check_open(ends);
  ends.server().close();
  ends.start_connect();
  REQUIRE(ends.until([&] { return ends.accepted.size() == 2; }));
}

namespace {

/// A listener with a token and few places for handshakes, and strangers that say nothing.
struct besieged : pair_of_ends {
  log_capture log = {};
  std::vector<std::unique_ptr<raw_socket>> strangers = {};

  explicit besieged(std::size_t places) {
    limits.handshakes_max = places;
    listening.token = connecting.token = "secret";
    listen();
  }
  raw_socket& come(char const* from = "127.0.0.1", bytes const& saying = {}) {
    strangers.push_back(std::make_unique<raw_socket>(listener->bound(), from));
    if (!saying.empty()) strangers.back()->send(saying);
    settle();
    return *strangers.back();
  }
  void settle() {
    auto turns = 0;  // a machine with other work may stand still for all of the time
    auto const end = net::network::clock::now() + 5ms;
    (void)until([&] { return ++turns > 10 && net::network::clock::now() > end; });
  }
  /// Those that are still there, by number.
  std::vector<std::size_t> left() {
    settle();
    std::vector<std::size_t> there;
    for (std::size_t i = 0; i < strangers.size(); ++i)
      if (!strangers[i]->has_ended()) there.push_back(i);
    return there;
  }
};
using indices = std::vector<std::size_t>;

}  // namespace

TEST_CASE("where handshakes have taken all places, the oldest goes, not who comes", "[net]") {
  besieged b(2);
  for (int i = 0; i < 4; ++i) b.come();
  CHECK(b.left() == indices{2, 3});
  CHECK(count_of("2 handshakes are under way", b.log.warnings()) == 1);  // not for each
  b.start_connect();
  REQUIRE(b.until([&] { return b.client && b.accepted.size() == 1; }));
  CHECK(b.left() == indices{3});
  b.strangers.clear();
  b.settle();
  for (int i = 0; i < 3; ++i) b.come();
  CHECK(count_of("2 handshakes are under way", b.log.warnings()) == 2);  // it had ended meanwhile
}

TEST_CASE("an address that has more handshakes under way gives way to the others", "[net]") {
  besieged b(4);
  b.come("127.0.0.2");
  for (int i = 0; i < 5; ++i) b.come("127.0.0.3");
  CHECK(b.left() == indices{0, 3, 4, 5});
  b.come("127.0.0.4");
  CHECK(b.left() == indices{0, 4, 5, 6});
}

TEST_CASE("who has shown to know the token gives way to no stranger", "[net]") {
  besieged b(2);
  b.come("127.0.0.1", greeting_by("secret"));  // and waits for the rest as long as it takes
  for (int i = 0; i < 5; ++i) b.come();
  CHECK(b.left() == indices{0, 5});
  SECTION("but the oldest does where all have") {
    b.come("127.0.0.1", greeting_by("secret"));
    CHECK(b.left() == indices{0, 6});
    b.come("127.0.0.1", greeting_by("secret"));
    CHECK(b.left() == indices{6, 7});
  }
  SECTION("and whoever has not shown it goes at once") {
    b.come("127.0.0.1", raw_socket::greeting(2, true));
    CHECK(b.left() == indices{0});
    CHECK_THAT(b.log.warnings(), Contains("the token is wrong"));
  }
}

TEST_CASE("strangers in their handshake leave room for a connection where all are taken", "[net]") {
  besieged b(8);
  b.listener.reset();
  b.limits.connections_max = 2;
  b.listen();
  b.come();
  b.come();
  b.start_connect();
  REQUIRE(b.until([&] { return b.client && b.accepted.size() == 1; }));
  CHECK(b.left() == indices{1});
  CHECK_THAT(b.log.warnings(), Contains("2 connections are open"));
}

TEST_CASE("strangers in their handshake leave room where they hold all files that may be open", "[net]") {
  besieged b(100);  // more than there are files
  for (int i = 0; i < 4; ++i) b.come();
  raw_socket knowing(b.listener->bound());  // the system takes it, the listener cannot
  knowing.send(greeting_by("secret"));
  {
    no_more_files const limit;
    (void)b.until([&] { return !b.log.warnings().empty(); });
    b.settle();
  }
  CHECK(b.left() == indices{1, 2, 3});
  CHECK_FALSE(knowing.has_ended());
  CHECK(count_of("no more files can be opened, with 4 handshakes", b.log.warnings()) == 1);
  CHECK(count_of("\n", b.log.warnings()) == 1);
  b.start_connect();
  REQUIRE(b.until([&] { return b.client && b.accepted.size() == 1; }));
}

TEST_CASE("a flood of refusals is told of as one", "[net]") {
  besieged b(8);
  for (int i = 0; i < 60; ++i) {
    raw_socket stranger(b.listener->bound());
    stranger.send(raw_socket::greeting(2, true));
    CHECK(stranger.sees_end(b.network));
  }
  auto const told = count_of("the token is wrong", b.log.warnings());
  CHECK(told >= 32);
  CHECK(told < 60);
  CHECK(count_of("refuses more than 32 a second", b.log.warnings()) >= 1);
}

TEST_CASE("when no more files can be opened, connections go on, and others come later", "[net]") {
  log_capture const log;
  pair_of_ends ends;
  ends.open();
  raw_socket waiting(ends.listener->bound());  // the system takes it; the listener cannot
  bool warned = false;
  bool warned_again = true;
  bool open_before = false;
  bool open_after = false;
  {
    no_more_files const limit;
    warned = ends.until([&] { return !log.warnings().empty(); });
    open_before = is_open(ends);
    // Time for several tries.
    warned_again = ends.until([&] { return count_of("\n", log.warnings()) > 1; }, 450ms);
    open_after = is_open(ends);
  }
  CHECK(warned);
  CHECK_FALSE(warned_again);
  CHECK(open_before);
  CHECK(open_after);
  CHECK_THAT(log.warnings(), Contains(ends.listener->bound().text() + ": cannot accept") &&
                                 Contains("open files"));
  CHECK(ends.accepted.size() == 1);
  waiting.greet(ends.network);
  REQUIRE(ends.until([&] { return ends.accepted.size() == 2; }));
  CHECK(count_of("accepts connections again", log.warnings()) == 1);
  CHECK(count_of("\n", log.warnings()) == 2);
  raw_socket next(ends.listener->bound());
  next.greet(ends.network);
  REQUIRE(ends.until([&] { return ends.accepted.size() == 3; }));
  CHECK(count_of("\n", log.warnings()) == 2);
  check_open(ends);
}
