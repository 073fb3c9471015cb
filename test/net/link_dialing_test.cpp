// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// How links find who listens.
#include <rubato/net/link.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <rubato/core/error.hpp>
#include <string>
#include <thread>
#include <vector>

#include "linked.hpp"

using namespace rubato;
using namespace rubato::test;
using namespace std::chrono_literals;
using Catch::Contains;

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

TEST_CASE("link: who is slow to say welcome is not near, unless nothing can be in between") {
  bool const over_tcp = GENERATE(true, false);
  linked l;
  temporary_folder const folder;
  recorder heard;
  std::unique_ptr<net::connection> peer;
  net::address where;
  if (over_tcp) where.host = "127.0.0.1";
  else where.path = folder.file("server");
  auto const listener = l.network.listen(where, {}, net::listener_options{}, [&](auto fresh) {
    fresh->attach(heard);
    peer = std::move(fresh);
  });
  l.dial(listener->bound(), 5s);
  REQUIRE(l.until([&] { return heard.ended == 1; }));
  CHECK_FALSE(l.dialer->is_near());  // nor is who has not said it yet
  std::this_thread::sleep_for(10ms);
  peer->send(header_of(welcome_kind), {});
  peer->flush();
  REQUIRE(l.until([&] { return l.dialer->is_up(); }));
  for (std::size_t i = 0; i < 50; ++i) {  // until what TCP has measured is short
    l.dialer->send(header_of(plain), {});
    l.dialer->flush();
    REQUIRE(l.until([&] { return heard.ended == 2 + i; }));
    peer->send(header_of(plain), {});
    peer->flush();
    REQUIRE(l.until([&] { return l.at_dialer.plain_bodies.size() == 1 + i; }));
  }
  CHECK(l.dialer->is_near() == !over_tcp);
  peer->close();
  REQUIRE(l.until([&] { return l.at_dialer.breaks == 1; }));
  CHECK_FALSE(l.dialer->is_near());
}
