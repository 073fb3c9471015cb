// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What arrives over links, and how they end.
#include <rubato/net/link.hpp>

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "failing_memory.hpp"
#include "linked.hpp"
#include "seeds.hpp"

using namespace rubato;
using namespace rubato::test;
using namespace std::chrono_literals;
using Catch::Contains;

// ---- what arrives

TEST_CASE("link: reliable and other frames arrive, and acknowledgements empty what is kept") {
  linked l;
  l.dial();
  l.dialer->send_reliable(plain, numbered(0, 10));  // before there is a connection
  l.dialer->send(header_of(plain), {}, as_bytes("lost"));
  CHECK(l.dialer->unacknowledged() == 1);
  CHECK(l.dialer->unacknowledged_bytes() == 10);
  REQUIRE(l.until([&] { return l.both_up(); }));
  l.dialer->send(header_of(plain), {}, as_bytes("kept"));
  l.dialer->send_reliable(plain, numbered(1, 1'000'000));
  l.other().send_reliable(plain, numbered(0, 100'000));
  l.dialer->flush();
  l.other().flush();
  REQUIRE(l.until([&] {
    return l.at_listener.reliable_bodies.size() == 2 && l.at_dialer.reliable_bodies.size() == 1 &&
           l.dialer->unacknowledged() == 0 && l.other().unacknowledged() == 0;
  }));
  CHECK(in_order(l.at_listener.reliable_bodies));
  CHECK(in_order(l.at_dialer.reliable_bodies));
  REQUIRE(l.at_listener.plain_bodies.size() == 1);
  CHECK(as_text(l.at_listener.plain_bodies.front()) == "kept");
  CHECK(l.dialer->unacknowledged_bytes() == 0);
  CHECK(l.at_dialer.resumptions == 1);
  CHECK(l.at_listener.resumptions == 1);
}

namespace {

/// Of which the other end reads a part elsewhere.
class lending_frame final : public net::reliable_frame {
 public:
  [[nodiscard]] wire::frame_header header() const override { return header_of(reliable); }
  [[nodiscard]] std::span<std::byte const> meta() const override { return {}; }
  void gather(std::vector<std::span<std::byte const>>& body) const override { body.emplace_back(sent_); }
  [[nodiscard]] std::size_t lent() const override { return 5000; }

 private:
  bytes sent_ = numbered(0, 10);
};

}  // namespace

TEST_CASE("link: what the other end reads elsewhere is under way as long as its frame is") {
  linked l;
  l.dial();
  REQUIRE(l.until([&] { return l.both_up(); }));
  l.dialer->send(std::make_shared<lending_frame const>());
  CHECK(l.dialer->unacknowledged_bytes() == 5010);
  l.dialer->flush();
  REQUIRE(l.until([&] { return l.dialer->unacknowledged() == 0; }));
  CHECK(l.dialer->unacknowledged_bytes() == 0);
  REQUIRE(l.at_listener.reliable_bodies.size() == 1);
  CHECK(l.at_listener.reliable_bodies.front().size() == 10);
}

TEST_CASE("link: whenever and wherever it breaks, each reliable frame arrives once, in order") {
  for (std::uint64_t i = 0; i < seed_count(3); ++i) {
    std::uint64_t const seed = first_seed() + i;
    INFO(test::repeat_by(seed));
    std::mt19937_64 random(seed);
    linked l;
    l.connect();
    std::uint64_t to_listener = 0;
    std::uint64_t to_dialer = 0;
    auto const size = [&] { return random() % 12 == 0 ? 1'000'000 : random() % 20'000; };
    for (int cut = 0; cut < 80; ++cut) {
      for (auto n = random() % 4; n > 0; --n)
        l.dialer->send_reliable(plain, numbered(to_listener++, size()));
      for (auto n = random() % 4; n > 0; --n)
        l.other().send_reliable(plain, numbered(to_dialer++, size()));
      l.dialer->flush();
      l.other().flush();
      for (auto n = random() % 60; n > 0; --n) l.network.run_one(net::network::clock::now());
      if (random() % 2 == 0) l.dialer->cut();
      if (random() % 2 == 0) l.other().cut();
      if (random() % 4 != 0) REQUIRE(l.until([&] { return l.both_up(); }));
    }
    REQUIRE(l.until([&] {
      return l.both_up() && l.dialer->unacknowledged() == 0 && l.other().unacknowledged() == 0;
    }));
    CHECK(l.at_listener.reliable_bodies.size() == to_listener);
    CHECK(l.at_dialer.reliable_bodies.size() == to_dialer);
    CHECK(in_order(l.at_listener.reliable_bodies));
    CHECK(in_order(l.at_dialer.reliable_bodies));
    CHECK(l.at_dialer.resumptions == l.at_dialer.breaks + 1);
    CHECK(l.at_listener.resumptions == l.at_listener.breaks + 1);
    CHECK_FALSE(l.at_dialer.is_lost());
    CHECK_FALSE(l.at_listener.is_lost());
  }
}

TEST_CASE("link: other frames are lost with their connection") {
  linked l;
  l.connect();
  l.dialer->send(header_of(plain), {}, 5'000'000, [] {
    struct zeros final : net::body_source {
      bytes all = bytes(5'000'000);
      std::span<std::byte const> next() override { return all; }
    };
    return std::make_unique<zeros>();
  }());
  l.dialer->flush();
  l.dialer->cut();
  l.dialer->send(header_of(plain), {}, as_bytes("nobody there"));
  l.dialer->send_reliable(plain, numbered(0, 8));
  REQUIRE(l.until([&] { return l.at_listener.reliable_bodies.size() == 1; }));
  CHECK(l.at_listener.plain_bodies.empty());
  CHECK(l.at_listener.breaks == 1);
}

namespace {

/// The header of the next frame that comes there, which is read whole. Heartbeats are not told: where the machine is
/// slow there may be some.
wire::frame_header next_frame(raw_socket& from, net::asio_network& network) {
  while (true) {
    auto const head = from.read_exactly(network, wire::frame_header_size);
    REQUIRE(head.size() == wire::frame_header_size);
    auto const header = wire::decode(std::span(head).first<wire::frame_header_size>());
    REQUIRE(from.read_exactly(network, header.meta + header.length).size() == header.meta + header.length);
    if (header.kind != 0) return header;
  }
}

}  // namespace

TEST_CASE("link: acknowledgements that wait become one, which goes as soon as something does") {
  linked l;
  raw_socket slow(l.listener->bound());
  slow.greet(l.network);
  slow.send(encoded(header_of(hello_kind), encoded({.session = 42}), {}));
  REQUIRE(l.until([&] { return l.at_listener.resumptions == 1; }));
  bytes const large(20'000'000);
  l.other().send(header_of(plain), {}, large);  // more than the line takes before somebody reads
  l.other().flush();
  for (std::uint64_t n = 1; n <= 100; ++n) {
    slow.send(encoded(header_of(reliable, n), {}, numbered(n, 10)));
    REQUIRE(l.until([&] { return l.at_listener.reliable_bodies.size() == n; }));
  }
  CHECK(l.other().unsent() > 0);
  CHECK(next_frame(slow, l.network).kind == welcome_kind);
  CHECK(next_frame(slow, l.network).kind == plain);
  auto const waited = next_frame(slow, l.network);
  CHECK(waited.kind == ack_kind);
  CHECK(waited.sequence == 100);
  slow.send(encoded(header_of(reliable, 101), {}, numbered(101, 10)));
  REQUIRE(l.until([&] { return l.at_listener.reliable_bodies.size() == 101; }));
  l.other().close();
  auto const last = next_frame(slow, l.network);
  CHECK(last.kind == ack_kind);
  CHECK(last.sequence == 101);
  CHECK(next_frame(slow, l.network).kind == goodbye_kind);
}

// ---- how it ends

TEST_CASE("link: when a break lasts too long it is lost, once, on both sides, with a sentence") {
  net::link::options o;
  o.reconnect = o.handshake = 500ms;
  linked l(o);
  l.connect();
  l.listener.reset();
  l.dialer->cut();
  REQUIRE(l.until([&] { return l.at_dialer.is_lost() && l.at_listener.is_lost(); }));
  CHECK_THAT(l.at_listener.reason(), Contains("it did not come back within 0.5 s"));
  CHECK_FALSE(l.at_dialer.reason().empty());
  CHECK_FALSE(l.until([&] { return l.at_dialer.reasons.size() + l.at_listener.reasons.size() > 2; },
                      100ms));
  CHECK(l.at_listener.expected_losses + l.at_dialer.expected_losses == 0);
  CHECK(l.dialer->is_over());
}

TEST_CASE("link: where no break is waited out, a cut is all the same, whoever cuts") {
  net::link::options o;
  o.reconnect = 0ms;
  linked l(o);
  l.connect();
  SECTION("the dialing side") { l.dialer->cut(); }
  SECTION("the listening side") { l.other().cut(); }
  SECTION("both, in turn") {
    l.dialer->cut();
    REQUIRE(l.until([&] { return l.both_up(); }));
    l.other().cut();
  }
  l.dialer->send_reliable(plain, numbered(0, 100));
  l.other().send_reliable(plain, numbered(0, 100));
  REQUIRE(l.until([&] {
    return l.at_listener.reliable_bodies.size() == 1 && l.at_dialer.reliable_bodies.size() == 1;
  }));
  CHECK_FALSE(l.at_dialer.is_lost());
  CHECK_FALSE(l.at_listener.is_lost());
  CHECK(l.at_dialer.breaks >= 1);
}

TEST_CASE("link: where no break is waited out, who is gone is lost at once") {
  net::link::options o;
  o.reconnect = 0ms;
  linked l(o);
  l.speak_raw();
  l.say_hello();
  REQUIRE(l.until([&] { return l.at_listener.resumptions == 1; }));
  SECTION("after the first connection") {}
  SECTION("after one that took the place of another, which was cut") {
    l.say(header_of(cut_kind));
    l.raw->close();
    CHECK_FALSE(l.until([&] { return l.at_listener.is_lost(); }, 50ms));
    l.speak_raw();
    l.say_hello();
    REQUIRE(l.until([&] { return l.at_listener.resumptions == 2; }));
  }
  l.raw->close();
  REQUIRE(l.until([&] { return l.at_listener.is_lost(); }, 2s));
  CHECK_THAT(l.at_listener.reason(), Contains("it did not come back within 0.0 s"));
}

TEST_CASE("link: a goodbye is an expected loss") {
  linked l;
  l.connect();
  SECTION("from the dialing side") {
    l.dialer->close();
    REQUIRE(l.until([&] { return l.at_listener.is_lost(); }));
    CHECK(l.at_listener.expected_losses == 1);
    CHECK_FALSE(l.at_dialer.is_lost());
  }
  SECTION("from the listening side") {
    l.other().close();
    REQUIRE(l.until([&] { return l.at_dialer.is_lost(); }));
    CHECK(l.at_dialer.expected_losses == 1);
  }
}

TEST_CASE("link: who is refused is lost with the other's sentence, and does not try again") {
  linked l;
  SECTION("at the door") {
    l.refusal = "no strangers";
    l.dial();
  }
  SECTION("later") {
    l.connect();
    l.other().refuse("no strangers");
  }
  REQUIRE(l.until([&] { return l.at_dialer.is_lost(); }));
  CHECK(l.at_dialer.reason() == "no strangers");
  CHECK(l.at_dialer.expected_losses == 0);
  CHECK(l.at_dialer.breaks == 0);
  CHECK_FALSE(l.until([&] { return l.dialer->is_up(); }, 50ms));
}

TEST_CASE("link: it closes, and refuses, also where there is no memory left to say so") {
  if (!test::memory_can_end()) return;
  linked l;
  l.connect();
  bool const refuses = GENERATE(true, false);
  std::string const reason(100, 'x');
  for (std::size_t left = 0; left < 4; ++left) {
    test::end_of_memory const ends(left);
    if (refuses) l.other().refuse(reason);
    else l.other().close();
  }
  CHECK(l.until([&] { return l.at_dialer.is_lost() || l.at_dialer.breaks != 0; }));
}

TEST_CASE("link: of a long refusal the beginning arrives") {
  linked l;
  std::string const reason(70'000, 'x');  // more than a frame may say about itself
  SECTION("at the door") {
    l.refusal = reason;
    l.dial();
  }
  SECTION("later") {
    l.connect();
    l.other().refuse(reason);
  }
  REQUIRE(l.until([&] { return l.at_dialer.is_lost(); }));
  CHECK(l.at_dialer.reason() == std::string(1000, 'x'));
}

TEST_CASE("link: a frame that its user does not take closes it for good, and the other hears why") {
  linked l;
  l.connect();
  listener_of_link* at = nullptr;
  listener_of_link* from = nullptr;
  net::link* sender = nullptr;
  SECTION("at the listening side") {
    at = &l.at_listener, from = &l.at_dialer, sender = l.dialer.get();
  }
  SECTION("at the dialing side") { at = &l.at_dialer, from = &l.at_listener, sender = &l.other(); }
  bool const early = GENERATE(true, false);
  auto const complain = [](auto const&) { throw wire::frame_error("I do not like it"); };
  (early ? at->on_begin : at->on_end) = complain;
  sender->send_reliable(plain, numbered(0, 8));
  sender->flush();
  REQUIRE(l.until([&] { return at->is_lost() && from->is_lost(); }));
  CHECK(at->reason() == "I do not like it");
  CHECK(from->reason() == "I do not like it");
  CHECK(at->breaks + from->breaks == 0);
}

namespace {

/// One whose meta is longer than the other end takes.
class overlong_frame final : public net::reliable_frame {
 public:
  [[nodiscard]] wire::frame_header header() const override { return header_of(reliable); }
  [[nodiscard]] std::span<std::byte const> meta() const override { return meta_; }
  void gather(std::vector<std::span<std::byte const>>&) const override {}

 private:
  bytes meta_ = bytes(3000);
};

/// An end that is no link: it welcomes whoever connects, and hangs up at the `th` frame of each connection, having
/// acknowledged those before; it may begin to answer.
struct hanging_up {
  hanging_up(linked& to, std::size_t th) : l(to), at(th) {
    where.path = folder.file("server");
    listener = l.network.listen(where, net::security{}, net::listener_options{}, [this](auto fresh) {
      ++connections;
      heard = {};
      heard.on_end = [this] { answer(); };
      fresh->attach(heard);
      peer = std::move(fresh);
    });
  }
  void answer() {
    if (heard.ended == 1) {
      peer->send(header_of(welcome_kind, taken), {});
    } else if (heard.ended - 1 < at) {
      peer->send(header_of(ack_kind, ++taken), {});
    } else {
      if (begins_to_answer) begin_to_answer();
      peer->close();
      return;
    }
    peer->flush();
  }

  void begin_to_answer() const {
    struct zeros final : net::body_source {
      bytes some = bytes(1000);
      std::span<std::byte const> next() override { return some; }
    };
    peer->send(header_of(plain), {}, 20'000'000, std::make_unique<zeros>());
    peer->flush();
  }

  linked& l;
  std::size_t at;
  bool begins_to_answer = false;
  std::size_t connections = 0;
  std::uint64_t taken = 0;
  temporary_folder folder;
  net::address where;
  recorder heard;
  std::unique_ptr<net::connection> peer;
  std::unique_ptr<net::listener> listener;
};

}  // namespace

TEST_CASE("link: a frame that can never arrive ends it, after so many connections, and both ends hear why") {
  linked l({{.meta_max = 2000}, 2s, 4});
  l.connect();
  bool const dialer_sends = GENERATE(true, false);
  (dialer_sends ? *l.dialer : l.other()).send(std::make_shared<overlong_frame const>());
  (dialer_sends ? *l.dialer : l.other()).flush();
  REQUIRE(l.until([&] { return l.at_dialer.is_lost() && l.at_listener.is_lost(); }));
  auto& receiver = dialer_sends ? l.at_listener : l.at_dialer;
  auto& sender = dialer_sends ? l.at_dialer : l.at_listener;
  for (auto const* at : {&receiver, &sender})
    CHECK_THAT(at->reason(), Contains("4 connections in a row broke before anything had got through") &&
                                 Contains("3000 bytes of meta, at most 2000 may be"));
  CHECK(receiver.resumptions == 4);
  CHECK(std::ranges::count(l.logged.warnings(), '\n') < 40);
}

TEST_CASE("link: who hangs up at the same frame each time is lost, and the frame is named") {
  linked l({{}, 2s, 5});
  hanging_up other(l, 1);
  l.dial(other.where, 5s);
  l.dialer->send_reliable(plain, numbered(0, 30));
  REQUIRE(l.until([&] { return l.at_dialer.is_lost(); }));
  CHECK(other.connections == 5);
  CHECK_THAT(l.at_dialer.reason(), Contains("5 connections in a row") && Contains("frame 1 of kind 145 and 30 bytes"));
}

TEST_CASE("link: an answer that never comes to its end ends it, after so many connections, and is named") {
  linked l({{}, 2s, 5});
  hanging_up other(l, 1);
  other.begins_to_answer = true;
  l.dial(other.where, 5s);
  l.at_dialer.on_resumed = [&] { l.dialer->send(header_of(plain), {}, as_bytes("where?")); };
  REQUIRE(l.until([&] { return l.at_dialer.is_lost() || other.connections == 8; }));
  CHECK(other.connections == 5);
  CHECK_THAT(l.at_dialer.reason(), Contains("5 connections in a row broke before anything had got through") &&
                                       Contains("of what comes a frame of kind 17 and 20000000 bytes"));
}

TEST_CASE("link: who waits for an answer, or has nothing to say, may break as often as it likes") {
  linked l({{}, 2s, 5});
  hanging_up other(l, 1);
  bool const asks = GENERATE(true, false);
  l.dial(other.where, 5s);
  l.at_dialer.on_resumed = [&] {
    if (asks) l.dialer->send(header_of(plain), {}, as_bytes("where?"));
    else other.peer->close();
  };
  REQUIRE(l.until([&] { return l.at_dialer.is_lost() || other.connections == 8; }));
  CHECK_FALSE(l.at_dialer.is_lost());
}

TEST_CASE("link: as long as a frame gets through each connection, it may break as often as it likes") {
  linked l({{}, 2s, 3});
  hanging_up other(l, 2);
  l.dial(other.where, 5s);
  for (std::uint64_t n = 0; n < 20; ++n) l.dialer->send_reliable(plain, numbered(n, 30));
  REQUIRE(l.until([&] { return l.dialer->unacknowledged() == 0 || l.at_dialer.is_lost(); }));
  CHECK_FALSE(l.at_dialer.is_lost());
  CHECK(other.connections >= 20);
}

TEST_CASE("link: while nothing gets through, the other end is dialed less and less often") {
  linked l({{}, 2s, 6});
  hanging_up other(l, 1);
  auto const begin = net::network::clock::now();
  l.dial(other.where, 5s);
  l.dialer->send_reliable(plain, numbered(0, 30));
  REQUIRE(l.until([&] { return l.at_dialer.is_lost(); }));
  CHECK(net::network::clock::now() - begin >= (5 + 10 + 20 + 40 + 80) * 1ms);
}
