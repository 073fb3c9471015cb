// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What must not come over links, and connections that take another's place.
#include <rubato/net/link.hpp>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "linked.hpp"
#include "patience.hpp"

using namespace rubato;
using namespace rubato::test;
using namespace std::chrono_literals;
using Catch::Contains;

// ---- what must not come

TEST_CASE("link: what must not come closes this link, says why, and touches no other") {
  linked l;
  l.connect();
  l.speak_raw();
  std::string why;
  SECTION("a frame before the hello") { l.say(header_of(reliable, 1), {}, as_bytes("x")); }
  SECTION("a hello of an unknown role") {
    bytes h = encoded({.session = 5});
    h.front() = std::byte{9};
    l.say(header_of(hello_kind), h);
  }
  SECTION("a hello with a body") {
    l.say(header_of(hello_kind), encoded({.session = 5}), as_bytes("x"));
  }
  SECTION("more") {
    l.say_hello(5);
    SECTION("a gap") {
      l.say(header_of(reliable, 2), {}, as_bytes("x"));
      why = "frame 2 came, expected 1";
    }
    SECTION("an acknowledgement of what was never sent") {
      l.say(header_of(ack_kind, 1));
      why = "an acknowledgement of frame 1, but only 0 have been sent";
    }
    SECTION("hello twice") {
      l.say_hello(5);
      why = "kind 1 came when none was expected";
    }
    SECTION("a welcome from the dialing side") {
      l.say(header_of(welcome_kind));
      why = "kind 2 came when none was expected";
    }
    SECTION("an unknown kind of the link's own") {
      l.say(header_of(9));
      why = "kind 9 came when none was expected";
    }
    SECTION("a body where none may be") {
      l.say(header_of(ack_kind), {}, as_bytes("x"));
      why = "kind 4 has a body";
    }
    SECTION("a reliable frame without a number") {
      l.say(header_of(reliable, 0), {}, as_bytes("x"));
      why = "frame 0 came again, expected 1";
    }
  }
  REQUIRE(l.until([&] { return l.heard.is_closed(); }));
  CHECK_THAT(l.refused(), Contains(why));
  if (!why.empty()) CHECK_THAT(l.at_listener.reason(), Contains(why));
  CHECK(l.at_listener.breaks == 0);
  CHECK(l.both_up());
  CHECK_FALSE(l.at_dialer.is_lost());
}

TEST_CASE("link: who comes before the door is open is kept waiting, and comes again") {
  linked l({}, false);
  l.dial();
  l.dialer->send_reliable(plain, numbered(0, 10));
  l.speak_raw();
  l.say_hello(43);
  SECTION("and let in as it opens") {
    CHECK_FALSE(l.until([&] { return l.heard.is_closed() || l.dialer->is_up(); }, 50ms));
  }
  SECTION("but for who has gone or says more than a hello") {
    l.say(header_of(reliable, 1), {}, as_bytes("x"));
    REQUIRE(l.until([&] { return l.heard.is_closed(); }));
  }
  l.door->open();
  REQUIRE(l.until([&] { return l.both_up() && l.at_listener.reliable_bodies.size() == 1; }));
  CHECK(l.adopted.contains(43) != l.heard.is_closed());
  CHECK_FALSE(l.at_dialer.is_lost());
}

TEST_CASE("link: who leaves before the door is open is not let in") {
  linked l({}, false);
  l.speak_raw();
  l.say_hello(43);
  l.raw->close();
  REQUIRE(l.until([&] { return count_of("closed by the peer", l.logged.others()) == 1; }));
  bool const at_once = GENERATE(true, false);
  if (!at_once) {  // the one who left is forgotten by then
    l.dial();
    REQUIRE(l.until([&] { return count_of("connected", l.logged.others()) == 2; }));
  }
  l.door->open();
  if (at_once) l.dial();
  REQUIRE(l.until([&] { return l.both_up(); }));
  CHECK_FALSE(l.adopted.contains(43));
}

TEST_CASE("link: those who say no hello give way to who comes, the oldest first") {
  net::link::options o;
  o.handshake = 1s;
  linked l(o, true, 2);
  l.connect();
  std::vector<std::unique_ptr<raw_socket>> strangers;
  for (int i = 0; i < 5; ++i) {
    strangers.push_back(std::make_unique<raw_socket>(l.listener->bound()));
    strangers.back()->greet(l.network);
  }
  for (std::size_t i = 0; i < 3; ++i) CHECK(strangers[i]->sees_end(l.network));
  CHECK_FALSE(strangers[3]->has_ended());
  l.dialer->send_reliable(plain, numbered(0, 100));
  l.dialer->flush();
  REQUIRE(l.until([&] { return l.at_listener.reliable_bodies.size() == 1; }));
  l.dialer->cut();
  l.dialer->send_reliable(plain, numbered(1, 100));
  REQUIRE(l.until([&] { return l.at_listener.reliable_bodies.size() == 2; }));
  CHECK_FALSE(l.at_dialer.is_lost());
  CHECK(count_of("2 others wait at the door", l.logged.warnings()) == 1);
  CHECK(strangers[3]->sees_end(l.network));  // for the link's new connection
  CHECK(strangers[4]->sees_end(l.network));
  CHECK(count_of("said no hello in time", l.logged.warnings()) == 1);
}

TEST_CASE("link: a hello of another role than the handshake's is refused at the door, open or not") {
  bool const is_open = GENERATE(true, false);
  linked l({}, is_open);
  l.speak_raw();
  l.say(header_of(hello_kind), encoded({.as = net::role::server, .session = 43}));
  l.say_hello(43);  // too late
  REQUIRE(l.until([&] { return l.heard.is_closed(); }));
  CHECK(l.refused() == "a process that said in its handshake that it is a worker now says that it is a server");
  CHECK_THAT(l.logged.warnings(), Contains("refused: " + l.refused()));
  l.door->open();
  l.connect();
  CHECK_FALSE(l.adopted.contains(43));
}

TEST_CASE("link: who is early waits at the open door, not for ever, and is asked about again") {
  bool const in_time = GENERATE(true, false);
  net::link::options o;
  o.handshake = in_time ? std::chrono::milliseconds(patience) : 200ms;
  linked l(o);
  bool early = true;
  l.door->open([&](net::hello const& said) { return early && said.session == 42; });
  l.dial();
  CHECK_FALSE(l.until([&] { return l.dialer->is_up(); }, 50ms));
  l.speak_raw();
  l.say_hello(43);
  REQUIRE(l.until([&] { return l.adopted.contains(43); }));
  if (in_time) {  // let in with the next word
    early = false;
    l.door->open();
    REQUIRE(l.until([&] { return l.both_up(); }));
    CHECK(l.logged.warnings() == "");
  } else {  // sent away after as long as a handshake may take, and let in when it comes again
    REQUIRE(l.until([&] { return count_of("could not be let in yet", l.logged.warnings()) == 1 ||
                                 count_of("no welcome in time", l.logged.warnings()) == 1 ||
                                 count_of("closed by the peer", l.logged.others()) == 1; }));
    early = false;
    REQUIRE(l.until([&] { return l.both_up(); }));
  }
  CHECK_FALSE(l.at_dialer.is_lost());
}

TEST_CASE("link: who waited too long before a closed door connects again") {
  net::link::options o;
  o.handshake = 100ms;
  linked l(o, false);
  l.dial();
  REQUIRE(l.until([&] { return !l.logged.warnings().empty(); }));
  CHECK_THAT(l.logged.warnings(), Contains("no welcome in time") || Contains("let in yet"));
  l.door->open();
  REQUIRE(l.until([&] { return l.both_up(); }));
  CHECK_FALSE(l.at_dialer.is_lost());
}

TEST_CASE("link: the dialing side takes no frames before the welcome, and no wrong welcome") {
  linked l;
  std::vector<std::unique_ptr<net::connection>> peers;
  recorder heard;
  auto const raw = l.network.listen({"127.0.0.1", 0}, {}, {}, [&](auto fresh) {
    fresh->attach(heard);
    peers.push_back(std::move(fresh));
  });
  l.dial(raw->bound(), 5s);
  REQUIRE(l.until([&] { return heard.ended == 1; }));
  std::string why;
  SECTION("a frame") {
    peers.front()->send(header_of(reliable, 1), {}, as_bytes("x"));
    why = "came before the hello";
  }
  SECTION("an acknowledgement") {
    peers.front()->send(header_of(ack_kind), {});
    why = "kind 4 came when none was expected";
  }
  SECTION("a welcome that knows of more than was sent") {
    peers.front()->send(header_of(welcome_kind, 3), {});
    why = "an acknowledgement of frame 3, but only 0 have been sent";
  }
  SECTION("a hello") {
    peers.front()->send(header_of(hello_kind), encoded({}));
    why = "kind 1 came when none was expected";
  }
  peers.front()->flush();
  REQUIRE(l.until([&] { return l.at_dialer.is_lost(); }));
  CHECK_THAT(l.at_dialer.reason(), Contains(why));
  REQUIRE(l.until([&] { return heard.frames.size() > 1; }));
  CHECK_THAT(as_text(heard.frames.back().meta), Contains(why));
  CHECK(peers.size() == 1);
}

// ---- a second connection of the same link

TEST_CASE("link: a connection that takes another's place breaks that one, and the user is told") {
  linked l;
  l.connect();
  l.speak_raw();
  l.say_hello();
  REQUIRE(l.until([&] { return l.at_listener.resumptions == 2; }));
  CHECK(l.at_listener.breaks == 1);
  l.dialer->send_reliable(plain, numbered(0, 100));
  l.dialer->flush();
  // The one whose link it is dials again, and its frames arrive once all the same.
  REQUIRE(l.until([&] { return l.at_listener.reliable_bodies.size() == 1; }));
  CHECK(in_order(l.at_listener.reliable_bodies));
  CHECK_FALSE(l.at_dialer.is_lost());
}

TEST_CASE("link: a hello that knows of frames never sent takes nobody's place") {
  linked l;
  l.connect();
  l.speak_raw();
  l.say_hello(42, 1);
  REQUIRE(l.until([&] { return l.heard.is_closed(); }));
  CHECK_THAT(l.refused(), Contains("but only 0 have been sent") && !Contains("not the one"));
  CHECK(l.both_up());
  CHECK(l.at_listener.breaks == 0);
  l.speak_raw();
  l.say_hello(43, 1);
  REQUIRE(l.until([&] { return l.heard.is_closed(); }));
  CHECK_THAT(l.refused(), Contains("this process is not the one that it goes on with: an acknowledgement of frame 1"));
  REQUIRE(l.until([&] { return l.at_listener.is_lost(); }));
  CHECK(l.adopted.at(43)->is_over());
}

// ---- what comes twice

TEST_CASE("link: a frame that comes again closes this link, says why, and changes nothing") {
  linked l;
  l.connect();
  l.speak_raw();
  l.say_hello(5);
  l.say(header_of(reliable, 1), {}, numbered(0, 100'000));
  l.say(header_of(reliable, 2), {}, numbered(1, 50));
  REQUIRE(l.until([&] { return l.at_listener.reliable_bodies.size() == 2; }));
  int begun = 0;
  l.at_listener.on_begin = [&](auto const&) { ++begun; };
  std::string why;
  SECTION("the last one") {
    l.say(header_of(reliable, 2), {}, numbered(1, 50));
    why = "frame 2 came again, expected 3";
  }
  SECTION("an earlier one, and the next after it") {
    l.say(header_of(reliable, 1), {}, numbered(0, 100'000));
    l.say(header_of(reliable, 3), {}, numbered(2, 50));
    why = "frame 1 came again, expected 3";
  }
  SECTION("without an end") {
    struct endless final : net::body_source {
      bytes some = bytes(1000);
      std::span<std::byte const> next() override { return some; }
    };
    l.raw->send(header_of(reliable, 1), {}, std::uint64_t{1} << 40, std::make_unique<endless>());
    l.raw->flush();
    why = "frame 1 came again, expected 3";
  }
  SECTION("over the next connection") {
    l.raw->close();
    l.speak_raw();
    l.say_hello(5);
    l.say(header_of(reliable, 2), {}, numbered(1, 50));
    why = "frame 2 came again, expected 3";
  }
  REQUIRE(l.until([&] { return l.heard.is_closed(); }));
  CHECK_THAT(l.refused(), Contains(why));
  CHECK_THAT(l.logged.warnings(), Contains(why));
  CHECK(l.at_listener.reason() == why);
  CHECK(begun == 0);
  CHECK(l.at_listener.reliable_bodies.size() == 2);
  CHECK(l.both_up());
  CHECK_FALSE(l.at_dialer.is_lost());
}

TEST_CASE("link: a frame whose connection is replaced in the middle of it comes once") {
  linked l;
  bytes const big = numbered(0, 20'000'000);
  l.speak_raw();
  auto const first = std::move(l.raw);
  recorder heard_by_first;
  first->attach(heard_by_first);
  l.speak_raw();
  first->send(header_of(hello_kind), encoded({.session = 42}));
  first->send(header_of(reliable, 1), {}, big);
  first->flush();
  REQUIRE(l.until([&] { return first->unsent() < 15'000'000; }));
  REQUIRE(first->unsent() > 0);
  l.say_hello();
  REQUIRE(l.until([&] { return l.at_listener.resumptions == 2; }));
  l.say(header_of(reliable, 1), {}, big);
  l.say(header_of(reliable, 2), {}, numbered(1, 50));
  REQUIRE(l.until([&] { return l.at_listener.reliable_bodies.size() == 2; }));
  CHECK(in_order(l.at_listener.reliable_bodies));
  CHECK_FALSE(l.at_listener.is_lost());
}
