// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/net/link.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <rubato/core/error.hpp>
#include <rubato/wire/archive.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "ends.hpp"
#include "seeds.hpp"

using namespace rubato;
using namespace rubato::test;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

constexpr std::uint8_t plain = net::first_user_kind + 1;
constexpr std::uint8_t reliable = plain | net::reliable_bit;
enum own : std::uint8_t {
  hello_kind = 1,
  welcome_kind,
  refused_kind,
  ack_kind,
  goodbye_kind,
  cut_kind
};

/// Keeps what a link tells it.
class listener_of_link : public net::link_user {
 public:
  std::vector<bytes> reliable_bodies, plain_bodies;
  std::vector<std::string> reasons;
  int resumptions = 0, breaks = 0, expected_losses = 0;
  std::function<void(wire::frame_header const&)> on_begin, on_end;
  std::function<void()> on_resumed;

  void begin(net::link&, wire::frame_header const& header, std::span<std::byte const>,
             std::vector<std::span<std::byte>>& body) override {
    if (on_begin) on_begin(header);
    arriving_.assign(header.length, std::byte{});
    body.emplace_back(arriving_);
  }
  void end(net::link&, wire::frame_header const& header) override {
    if (on_end) on_end(header);
    ((header.kind & net::reliable_bit) != 0 ? reliable_bodies : plain_bodies).push_back(arriving_);
  }
  void resumed(net::link&) override {
    ++resumptions;
    if (on_resumed) on_resumed();
  }
  void broken(net::link&, std::string const&) override { ++breaks; }
  void lost(net::link&, std::string const& reason, bool expected) override {
    reasons.push_back(reason);
    expected_losses += expected ? 1 : 0;
  }
  [[nodiscard]] bool is_lost() const noexcept { return !reasons.empty(); }
  [[nodiscard]] std::string reason() const { return reasons.empty() ? "" : reasons.front(); }

 private:
  bytes arriving_;
};

wire::frame_header header_of(std::uint8_t kind, std::uint64_t sequence = 0) {
  wire::frame_header h;
  h.kind = kind;
  h.sequence = sequence;
  return h;
}
bytes encoded(net::hello const& h) {
  wire::output_archive out;
  out << h.as << h.number << h.incarnation << h.session << h.received << h.credential;
  return out.take();
}

/// A listener with a doorkeeper and the links behind it, all with one user; and what dials.
struct linked {
  explicit linked(net::link::options const& o = {}, bool open = true, std::size_t guests = 256)
      : limits(o), opens(open), guests_max(guests) {
    listen({"127.0.0.1", 0});
  }

  log_capture logged;
  net::asio_network network;
  net::link::options limits;
  bool opens;
  std::size_t guests_max;
  listener_of_link at_dialer, at_listener;
  std::map<std::uint64_t, std::unique_ptr<net::link>> adopted;
  std::unique_ptr<net::link> dialer;
  std::unique_ptr<net::doorkeeper> door;
  std::unique_ptr<net::listener> listener;
  std::string refusal;
  // what speaks without a link
  std::shared_ptr<void> attempt;
  std::unique_ptr<net::connection> raw;
  recorder heard;

  void listen(net::address const& where) {
    net::listener_options o;
    static_cast<net::connection_options&>(o) = limits;
    door = std::make_unique<net::doorkeeper>(
        network, limits, [this](auto fresh, auto const& said) { welcome(std::move(fresh), said); },
        guests_max);
    if (opens) door->open();
    listener =
        network.listen(where, net::security{}, o,
                                        [this](auto fresh) { door->receive(std::move(fresh)); });
  }
  void welcome(std::unique_ptr<net::connection> fresh, net::hello const& said) {
    if (!refusal.empty()) return net::refuse(*fresh, refusal);
    auto& l = adopted[said.session];
    if (l && l->is_over()) return net::refuse(*fresh, "too late");
    if (!l) l = std::make_unique<net::link>(network, at_listener, limits, "worker 7");
    l->adopt(std::move(fresh), said);
  }
  void dial(std::chrono::milliseconds patience = 5s) { dial(listener->bound(), patience); }
  void dial(net::address const& to, std::chrono::milliseconds patience) {
    dialer = std::make_unique<net::link>(network, at_dialer, limits, "server 1");
    dialer->dial(to, {}, {.number = 7, .incarnation = 1, .session = 42, .received = 0}, patience);
  }
  void connect() {
    dial();
    REQUIRE(until([&] { return both_up(); }));
  }
  [[nodiscard]] bool both_up() {
    return dialer && dialer->is_up() && adopted.contains(42) && adopted[42]->is_up();
  }
  net::link& other() { return *adopted.at(42); }
  template <class Condition>
  [[nodiscard]] bool until(Condition c, std::chrono::milliseconds limit = 5s) {
    return run_until(network, c, limit);
  }
  /// Connects without a link, and says this.
  void speak_raw() {
    heard = {};
    attempt = network.dial(listener->bound(), {}, limits,
                           [this](auto fresh, auto const&, bool) { raw = std::move(fresh); });
    raw.reset();
    REQUIRE(until([&] { return raw != nullptr; }));
    raw->attach(heard);
  }
  void say(wire::frame_header const& h, std::span<std::byte const> meta = {},
           std::span<std::byte const> body = {}) {
    raw->send(h, meta, body);
    raw->flush();
  }
  void say_hello(std::uint64_t session = 42, std::uint64_t received = 0) {
    say(header_of(hello_kind), encoded({.session = session, .received = received}));
  }
  /// The sentence of the refusal that was heard.
  [[nodiscard]] std::string refused() const {
    for (frame const& f : heard.frames)
      if (f.header.kind == refused_kind) return as_text(f.meta);
    return "";
  }
};

bytes numbered(std::uint64_t n, std::size_t size) {
  bytes b = pattern(std::max<std::size_t>(size, 8), n);
  std::memcpy(b.data(), &n, sizeof n);
  return b;
}
/// Whether these are frames 0, 1, 2 and so on, whole.
bool in_order(std::vector<bytes> const& bodies) {
  for (std::size_t i = 0; i < bodies.size(); ++i)
    if (bodies[i] != numbered(i, bodies[i].size())) return false;
  return true;
}

}  // namespace

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

TEST_CASE("link: whenever and wherever it breaks, each reliable frame arrives once, in order") {
  for (std::uint64_t i = 0; i < seed_count(3); ++i) {
    std::uint64_t const seed = first_seed() + i;
    INFO("repeat with --seed " << seed);
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

namespace {

/// A server that was there, as a link to it knows: it is played, and can be made to answer no more.
struct once_there {
  explicit once_there(linked& to) : l(to) {
    where.path = folder.file("server");
    listener = l.network.listen(where, net::security{},
                                               net::listener_options{}, [this](auto fresh) {
                                                 fresh->attach(heard);
                                                 peers.push_back(std::move(fresh));
                                               });
    l.dial(where, 5s);
    REQUIRE(l.until([&] { return heard.ended == 1; }));
    peers.front()->send(header_of(welcome_kind), {});
    peers.front()->flush();
    REQUIRE(l.until([&] { return l.dialer->is_up(); }));
  }
  ~once_there() {
    if (mute >= 0) ::close(mute);
  }
  once_there(once_there const&) = delete;
  once_there& operator=(once_there const&) = delete;

  /// The system accepts for it, as for a process that has been stopped.
  void answers_nothing() {
    listener.reset();
    std::filesystem::remove(where.path);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, where.path.data(), where.path.size());
    mute = ::socket(AF_UNIX, SOCK_STREAM, 0);
    REQUIRE(::bind(mute, reinterpret_cast<sockaddr const*>(&at), sizeof at) == 0);
    REQUIRE(::listen(mute, 100) == 0);
  }

  linked& l;
  temporary_folder folder;
  net::address where;
  recorder heard;
  std::vector<std::unique_ptr<net::connection>> peers;
  std::unique_ptr<net::listener> listener;
  int mute = -1;
};

}  // namespace

TEST_CASE("link: a handshake under way lasts no longer than the break may") {
  net::link::options o;
  o.reconnect = 300ms;
  o.handshake = 1h;
  linked l(o);
  once_there server(l);
  SECTION("where nobody answers") { server.answers_nothing(); }
  SECTION("where nobody says welcome") {}
  server.peers.front()->close();
  REQUIRE(l.until([&] { return l.at_dialer.is_lost(); }, 20s));
  CHECK(l.at_dialer.breaks == 1);
  CHECK(l.at_dialer.expected_losses == 0);
  CHECK(l.dialer->is_over());
}

TEST_CASE("link: a handshake may take as long as what is left of the break") {
  net::link::options o;
  o.reconnect = 1h;
  o.handshake = 500ms;
  linked l(o);
  once_there server(l);
  server.peers.front()->close();
  // The next ones say no welcome in time; then one does.
  REQUIRE(l.until([&] { return server.peers.size() == 3; }));
  server.peers.back()->send(header_of(welcome_kind), {});
  server.peers.back()->flush();
  REQUIRE(l.until([&] { return l.at_dialer.resumptions == 2; }));
  CHECK_FALSE(l.at_dialer.is_lost());
}

TEST_CASE("link: the reason for a refusal is escaped before anybody quotes it") {
  linked l;
  once_there server(l);
  wire::frame_header refused = header_of(refused_kind);
  std::string const said = "no\x1b[2J\n";
  server.peers.back()->send(refused, std::as_bytes(std::span(said)));
  server.peers.back()->close();
  REQUIRE(l.until([&] { return l.at_dialer.is_lost(); }));
  CHECK(l.at_dialer.reason() == "no\\x1b[2J\\n");
}

// ---- dialing

TEST_CASE("link: where nobody listens it is lost when patience ends") {
  linked l;
  auto const where = l.listener->bound();
  l.listener.reset();
  l.dial(where, 60ms);
  REQUIRE(l.until([&] { return l.at_dialer.is_lost(); }));
  CHECK_THAT(l.at_dialer.reason(), Contains("could not be reached"));
}

TEST_CASE("link: one that accepts and says nothing is waited for no longer than patience lasts") {
  temporary_folder folder;
  auto const path = folder.file("silent");
  int const silent = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::strncpy(where.sun_path, path.c_str(), sizeof where.sun_path - 1);
  REQUIRE(::bind(silent, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
  REQUIRE(::listen(silent, 1) == 0);  // which the system does
  linked l;
  auto const began = std::chrono::steady_clock::now();
  l.dial({.host = "", .port = 0, .path = path}, 150ms);
  CHECK(l.until([&] { return l.at_dialer.is_lost(); }));
  CHECK(std::chrono::steady_clock::now() - began < l.limits.handshake);  // 5 s, whatever the patience
  CHECK_THAT(l.at_dialer.reason(), Contains("could not be reached") && Contains("the handshake took too long"));
  ::close(silent);
}

TEST_CASE("link: who is refused in the handshake does not try for as long as it has patience") {
  linked l;
  l.dialer = std::make_unique<net::link>(l.network, l.at_dialer, l.limits, "server 1");
  l.dialer->dial(l.listener->bound(), {.token = "secret", .tls = {}}, {.session = 42}, 1h);
  REQUIRE(l.until([&] { return l.at_dialer.is_lost(); }));
  CHECK(l.dialer->was_refused());
  CHECK(l.at_dialer.expected_losses == 0);
  CHECK_THAT(l.at_dialer.reason(),
             Contains("the other end refused: the process that connects has a "
                      "token, and the listener has none") &&
                 !Contains("could not be reached"));
  CHECK_FALSE(l.until([&] { return count_of("refused", l.logged.warnings()) > 1; }, 50ms));
}

TEST_CASE("link: what cannot be dialed throws at once") {
  linked l;
  net::link dialer(l.network, l.at_dialer, l.limits, "server 1");
  CHECK_THROWS_AS(dialer.dial({"", 0, "/tmp/" + std::string(200, 'x')}, {}, {}, 1h), option_error);
  net::tls_files const none{"/no/such/file", "/no/such/file", "/no/such/file"};
  CHECK_THROWS_AS(dialer.dial(l.listener->bound(), {.token = {}, .tls = none}, {}, 1h),
                  option_error);
  CHECK_FALSE(l.until([&] { return l.at_dialer.is_lost() || dialer.is_up(); }, 20ms));
}

TEST_CASE("link: who finds no room tries again") {
  linked l;
  net::listener_options one;
  one.connections_max = 1;
  std::vector<std::unique_ptr<net::connection>> accepted;
  auto const crowded = l.network.listen({"127.0.0.1", 0}, {}, one,
                              [&](auto fresh) { accepted.push_back(std::move(fresh)); });
  raw_socket first(crowded->bound());
  first.greet(l.network);
  REQUIRE(l.until([&] { return accepted.size() == 1; }));
  l.dial(crowded->bound(), 1h);
  REQUIRE(l.until([&] { return count_of("1 connections are open", l.logged.warnings()) == 1; }));
  CHECK_FALSE(l.until([&] { return l.at_dialer.is_lost(); }, 50ms));
  accepted.clear();
  REQUIRE(l.until([&] { return !accepted.empty(); }));
  CHECK_FALSE(l.at_dialer.is_lost());
}

TEST_CASE("link: a listener that comes late is found") {
  temporary_folder folder;
  linked l;
  net::address const where{"", 0, folder.file("late")};
  l.dial(where, 5s);
  CHECK_FALSE(l.until([&] { return l.dialer->is_up(); }, 30ms));
  l.listen(where);
  REQUIRE(l.until([&] { return l.both_up(); }));
}

TEST_CASE("link: a listener that answers no hello is given up") {
  net::link::options o;
  o.handshake = 30ms;
  linked l(o);
  std::vector<std::unique_ptr<net::connection>> mute;
  auto const deaf = l.network.listen({"127.0.0.1", 0}, {}, {},
                     [&](auto fresh) { mute.push_back(std::move(fresh)); });
  l.dial(deaf->bound(), 50ms);
  REQUIRE(l.until([&] { return l.at_dialer.is_lost(); }));
  CHECK_THAT(l.at_dialer.reason(), Contains("said no welcome in time"));
}

TEST_CASE("link: who says no hello is shown the door") {
  net::link::options o;
  o.handshake = 30ms;
  linked l(o);
  l.speak_raw();
  REQUIRE(l.until([&] { return l.heard.is_closed(); }));
  CHECK_THAT(l.logged.warnings(), Contains("said no hello in time"));
  CHECK(l.adopted.empty());
}

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
  net::link::options o;
  o.handshake = 200ms;
  linked l(o);
  bool early = true;
  l.door->open([&](net::hello const& said) { return early && said.session == 42; });
  l.dial();
  CHECK_FALSE(l.until([&] { return l.dialer->is_up() || !l.logged.warnings().empty(); }, 50ms));
  l.speak_raw();
  l.say_hello(43);
  REQUIRE(l.until([&] { return l.adopted.contains(43); }));
  SECTION("let in with the next word") {
    early = false;
    l.door->open();
    REQUIRE(l.until([&] { return l.both_up(); }, 100ms));
    CHECK(l.logged.warnings() == "");
  }
  SECTION("or sent away after as long as a handshake may take, and let in when it comes again") {
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
