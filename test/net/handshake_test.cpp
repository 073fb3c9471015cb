// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Who may talk to whom.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <functional>
#include <span>
#include <string>

#include <rubato/core/error.hpp>
#include <rubato/net/impl/handshake.hpp>

#include "ends.hpp"
#include "greeted.hpp"

using namespace rubato;
using namespace rubato::test;
using Catch::Contains;

namespace {

/// Both are refused with the same reason.
void check_refused(pair_of_ends& ends, std::string const& reason) {
  log_capture const log;
  ends.listen();
  ends.start_connect();
  REQUIRE(ends.until([&] { return ends.done_calls > 0 && !log.warnings().empty(); }));
  CHECK(ends.client == nullptr);
  CHECK(ends.accepted.empty());
  CHECK_THAT(ends.reason, Contains(reason) && Contains(ends.listener->bound().text()));
  CHECK(ends.refused);
  CHECK_THAT(log.warnings(), Contains(reason) && Contains("127.0.0.1:"));
  ends.network.poll();
  CHECK(ends.done_calls == 1);
}

/// What the listener says in its log to a peer that begins with these bytes.
std::string refusal_of(bytes const& sent, net::security const& keys = {}) {
  log_capture const log;
  pair_of_ends ends;
  ends.listening = keys;
  ends.limits.handshake = 50ms;
  ends.listen();
  raw_socket raw(ends.listener->bound());
  raw.send(sent);
  CHECK(raw.sees_end(ends.network));
  CHECK(ends.accepted.empty());
  return log.warnings();
}

}  // namespace

TEST_CASE("two ends with the same token, or without any, come together", "[net]") {
  pair_of_ends ends;
  ends.listening.token = ends.connecting.token = GENERATE("", "secret", std::string(5000, 'x'));
  ends.open();
  CHECK(ends.reason.empty());
  CHECK(ends.client->peer() == ends.listener->bound().text());
  CHECK_THAT(ends.server().peer(), Contains("127.0.0.1:"));
  check_open(ends);
}

TEST_CASE("either end of a connection knows what the other has shown to be in the handshake", "[net]") {
  pair_of_ends ends;
  ends.listening.token = ends.connecting.token = GENERATE("", "secret");
  ends.limits.as = wire::role::server;
  ends.listen();
  ends.limits.as = wire::role::worker;
  ends.start_connect();
  REQUIRE(ends.until([&] { return ends.client && !ends.accepted.empty(); }));
  CHECK_FALSE(ends.client->shown().objection(wire::role::server));
  CHECK_FALSE(ends.server().shown().objection(wire::role::worker));
  CHECK(ends.server().shown().objection(wire::role::server) ==
        "a process that said in its handshake that it is a worker now says that it is a server");
  CHECK(ends.client->shown().objection(wire::role::worker));
}

TEST_CASE("a wrong token is refused, and both ends say so", "[net]") {
  pair_of_ends ends;
  ends.listening.token = "one";
  ends.connecting.token = "other";
  check_refused(ends, "the token is wrong");
}

TEST_CASE("a token at one end only is refused, and both ends say so", "[net]") {
  pair_of_ends ends;
  SECTION("at the listener") {
    ends.listening.token = "one";
    check_refused(ends, "the listener has a token, and the process that connects has none");
  }
  SECTION("at the one that connects") {
    ends.connecting.token = "one";
    check_refused(ends, "the process that connects has a token, and the listener has none");
  }
}

TEST_CASE("a listener refuses what does not speak its protocol", "[net]") {
  net::security const token{.token = "secret"};
  auto const text = [](std::string_view of) {
    return bytes(as_bytes(of).begin(), as_bytes(of).end());
  };
  CHECK_THAT(refusal_of(raw_socket::greeting(3)), Contains("another version: 3, expected 2"));
  CHECK_THAT(refusal_of(text("GET / HTTP/1.0\r\n\r\n")),
             Contains("does not speak Rubato's protocol: it began with 'GET '"));
  CHECK_THAT(refusal_of(text("\x01\x02\x1b[\xff\xff\xff\xff")), Contains(R"('\x01\x02\x1b[')"));
  CHECK_THAT(refusal_of(text("\x16\x03\x01\x02\x01\x01\x01")),
             Contains("the peer speaks TLS, this listener does not"));
  CHECK_THAT(refusal_of({}), Contains("the handshake took too long"));
  CHECK_THAT(refusal_of(raw_socket::greeting()), Contains("the handshake took too long"));
  auto no_role = raw_socket::greeting();
  no_role[6] = std::byte{3};
  CHECK_THAT(refusal_of(no_role), Contains("the process that connects has no role that there is"));
  CHECK_THAT(refusal_of(raw_socket::greeting(2, true), token), Contains("the token is wrong"));
  CHECK_THAT(refusal_of(greeting_by("secret"), token), Contains("the handshake took too long"));

  auto no_proof = greeting_by("secret");
  no_proof.resize(no_proof.size() + 1 + 32);  // go on, and a proof of zeros
  CHECK_THAT(refusal_of(no_proof, token), Contains("the token is wrong"));
}

TEST_CASE("a proof that is sent back is worth nothing", "[net]") {
  log_capture const log;
  pair_of_ends ends;
  ends.listening.token = "secret";
  ends.listen();
  raw_socket raw(ends.listener->bound());
  raw.send(greeting_by("secret"));
  auto const answer = raw.read_exactly(ends.network, 1 + 39 + 32);
  REQUIRE(answer.size() == 72);
  bytes reflected{std::byte{0}};
  reflected.insert(reflected.end(), answer.end() - 32, answer.end());
  raw.send(reflected);
  CHECK(raw.sees_end(ends.network));
  CHECK_THAT(log.warnings(), Contains("the token is wrong"));
  CHECK(ends.accepted.empty());
}

TEST_CASE("a listener that sends a greeting back is refused", "[net]") {
  // The connecting end's own greeting and proof, as far as a mirror could make one up.
  temporary_folder const folder;
  auto const path = folder.file("mirror");
  int const mirror = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path, path.data(), path.size());
  REQUIRE(::bind(mirror, reinterpret_cast<sockaddr const*>(&where), sizeof where) == 0);
  REQUIRE(::listen(mirror, 1) == 0);
  pair_of_ends ends;
  ends.connecting.token = "secret";
  ends.start_connect(net::address::parse("unix:" + path));
  int const fd = ::accept(mirror, nullptr, nullptr);
  bytes greeting(40);
  REQUIRE(ends.until([&] { return ::recv(fd, &greeting[1], 39, MSG_DONTWAIT) == 39; }));
  REQUIRE(::send(fd, greeting.data(), greeting.size(), MSG_NOSIGNAL) == 40);
  REQUIRE(ends.until([&] { return ends.done_calls == 1; }));
  CHECK_THAT(ends.reason, Contains("the greeting was sent back"));
  ::close(fd);
  ::close(mirror);
}

TEST_CASE("a listener that says nothing is given up", "[net]") {
  pair_of_ends ends;
  ends.limits.handshake = 30ms;
  ends.listen();
  net::asio_network other;  // runs the one that connects, and never the listener
  int calls = 0;
  std::string reason;
  auto const attempt =
      other.dial(ends.listener->bound(), {}, ends.limits,
                   [&](std::unique_ptr<net::connection>, std::string const& why, bool) {
                     ++calls;
                     reason = why;
                   });
  REQUIRE(run_until(other, [&] { return calls == 1; }));
  CHECK_THAT(reason, Contains("the handshake took too long"));
}

TEST_CASE("whoever cannot show that it knows the token hears no proof to try guesses on", "[net]") {
  log_capture const log;
  pair_of_ends ends;
  ends.listening.token = "secret";
  ends.listen();
  raw_socket raw(ends.listener->bound());
  raw.send(raw_socket::greeting(2, true));
  auto const answer = raw.read_exactly(ends.network, 72);
  REQUIRE(answer.size() > 3);
  CHECK(answer[0] == std::byte{1});  // a sentence, and nothing else
  CHECK(as_text(std::span(answer).subspan(3)) == "the token is wrong: it must be the same at both ends");
}

TEST_CASE("an end that is not what the other expects is refused, with or without a token", "[net]") {
  log_capture const log;
  pair_of_ends ends;
  ends.listening.token = ends.connecting.token = GENERATE("", "secret");
  SECTION("the one that connects") {
    ends.limits.expected = wire::role::server;
    ends.listen();
    ends.limits.expected.reset();
    ends.start_connect();
    REQUIRE(ends.until([&] { return ends.done_calls == 1; }));
    CHECK_THAT(ends.reason, Contains("the process that connects is a worker, expected a server"));
  }
  SECTION("the one that listens") {
    ends.limits.as = wire::role::server;
    ends.listen();
    ends.limits.expected = wire::role::coordinator;
    ends.start_connect();
    REQUIRE(ends.until([&] { return ends.done_calls == 1; }));
    CHECK_THAT(ends.reason, Contains("the process that listens is a server, expected a coordinator"));
  }
  CHECK(ends.refused);
  CHECK(ends.accepted.empty());
}

namespace {

/// What `mine` says to `other` when it is told `said`: all of it.
bytes answer_of(net::handshake& to, bytes const& said) {
  std::span<std::byte const> rest = said;
  bytes answer;
  try {
    while (!rest.empty() && to.wanted() <= rest.size()) {
      std::size_t const wanted = to.wanted();
      to.received(rest.first(wanted));
      rest = rest.subspan(wanted);
      answer = joined({answer, to.output()});
    }
  } catch (net::handshake_refused const&) {
    return to.output();
  }
  return answer;
}

using side = net::handshake::role;

}  // namespace

TEST_CASE("a proof that was made for one role, or its greeting, is worth nothing for another", "[net]") {
  // In the middle stands somebody who passes on what both say, and changes one role on the way.
  net::handshake client(side::connecting, "secret", {.mine = wire::role::worker}, net::fresh_secret());
  net::handshake server(side::accepting, "secret", {.mine = wire::role::server}, net::fresh_secret());
  bytes hail = client.output();
  SECTION("unchanged, they come together") {
    bytes const proof = answer_of(server, hail);
    CHECK(answer_of(server, answer_of(client, proof)) == bytes{std::byte{0}});
  }
  SECTION("of the one that connects") {
    hail[6] = std::byte(wire::role::server);
    CHECK(answer_of(server, hail).at(0) == std::byte{1});
    CHECK_FALSE(server.is_greeted());
  }
  SECTION("of the one that listens") {
    bytes proof = answer_of(server, hail);
    REQUIRE(server.is_greeted());
    proof[1 + 6] = std::byte(wire::role::coordinator);
    CHECK(answer_of(client, proof).at(0) == std::byte{1});
  }
}

TEST_CASE("an end whose certificate is not for what it says, or is not understood, hears so", "[net]") {
  bool const connects = GENERATE(true, false);  // whose certificate it is
  net::handshake other(connects ? side::connecting : side::accepting, "", {.mine = wire::role::server},
                       net::fresh_secret());
  net::handshake judge(connects ? side::accepting : side::connecting, "",
                       {.mine = wire::role::worker, .other = {}, .number = 2}, net::fresh_secret());
  std::string why;
  auto const refused = [&](std::vector<std::string> const& uris) {
    try {
      judge.other_is_certified(uris);
      net::handshake& first = connects ? other : judge;
      auto greeting = first.output();
      if (!connects) {
        other.received(std::span(greeting).first(7));
        other.received(std::span(greeting).subspan(7));
        greeting = other.output();
        judge.received(std::span(greeting).first(1));
        greeting.erase(greeting.begin());
      }
      judge.received(std::span(greeting).first(7));
    } catch (net::handshake_refused const& e) {
      why = e.what();
      return true;
    }
    return false;
  };
  SECTION("for it") { CHECK_FALSE(refused({"rubato:server/2", "rubato:worker"})); }
  SECTION("for nothing in particular") { CHECK_FALSE(refused({"https://x.test"})); }
  SECTION("for another role") {
    REQUIRE(refused({"rubato:worker/2"}));
    CHECK(why == "the certificate of this server is for worker 2 only");
    CHECK(judge.output() == net::handshake::refusal(why));
  }
  SECTION("for another number") {
    REQUIRE(refused({"rubato:server/1"}));
    CHECK(why == "the certificate of this server is for server 1 only, and not for server 2");
    CHECK(judge.output() == net::handshake::refusal(why));
  }
  SECTION("not understood") {
    REQUIRE(refused({"rubato:serveur"}));
    CHECK_THAT(why, Contains("'rubato:serveur', expected rubato:worker"));
    CHECK(judge.output() == net::handshake::refusal(why));
  }
}

namespace {

/// How often a process that does this says that a token is no protection; it says so once in its life, so each is asked
/// in one of its own.
int warnings_after(std::function<void(pair_of_ends&)> const& what) {
  pid_t const child = ::fork();
  if (child == 0) {
    log_capture const log;
    pair_of_ends ends;
    ends.listening = ends.connecting = {.token = "secret", .beyond_loopback = true};
    what(ends);
    what(ends);
    ::_exit(static_cast<int>(count_of("neither encrypted nor authenticated", log.warnings())));
  }
  int status = 0;
  (void)::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("who uses a token without TLS beyond this machine is told once that it does not protect what follows",
          "[net]") {
  net::address const elsewhere{.host = "192.0.2.1", .port = 9};
  CHECK(warnings_after([](auto& e) { e.listen("0.0.0.0:0"); }) == 1);
  CHECK(warnings_after([&](auto& e) { e.start_connect(elsewhere); }) == 1);
  CHECK(warnings_after([](auto& e) {
          e.listen();
          e.start_connect();
          temporary_folder const folder;
          e.listen("unix:" + folder.file("socket"));
          e.start_connect();
          e.attempt.reset();
          e.listener.reset();
        }) == 0);
  CHECK(warnings_after([](auto& e) {
          e.listening.token.clear();
          e.listen("0.0.0.0:0");
        }) == 0);
}
