// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Who may talk to whom: the handshake, what a listener puts up with, and where it listens.
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <rubato/core/error.hpp>

#include <rubato/net/impl/handshake.hpp>

#include "ends.hpp"
#include "no_more_files.hpp"

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

/// This process's sockets that a program started now would hold open.
std::vector<std::string> inherited_sockets() {
  std::vector<std::string> result;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    int const file = std::stoi(entry.path().filename());
    struct stat what;
    if (::fstat(file, &what) != 0 || !S_ISSOCK(what.st_mode)) continue;
    if ((::fcntl(file, F_GETFD) & FD_CLOEXEC) == 0)
      result.push_back(std::filesystem::read_symlink(entry.path()));
  }
  return result;
}

/// The first bytes of a process that knows the token.
bytes greeting_by(std::string const& token) {
  return net::handshake(net::handshake::role::connecting, token, {}, net::fresh_secret()).output();
}

bool is_open(pair_of_ends& ends) {
  auto const before = ends.at_server.ended;
  ends.client->send({.kind = 1}, {}, pattern(10));
  ends.client->flush();
  return ends.until([&] { return ends.at_server.ended == before + 1; });
}

void check_open(pair_of_ends& ends) { REQUIRE(is_open(ends)); }

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

TEST_CASE("programs that a process starts hold none of its sockets", "[net]") {
  temporary_folder const folder;
  auto const at = GENERATE(true, false) ? "127.0.0.1:0" : "unix:" + folder.file("socket");
  auto const before = inherited_sockets();  // of whatever runs the tests
  pair_of_ends ends;
  SECTION("one that listens") {
    ends.listen(at);
    CHECK(inherited_sockets() == before);
  }
  SECTION("one that connects yet") {
    ends.listen(at);
    ends.start_connect();
    CHECK(inherited_sockets() == before);
  }
  SECTION("both ends of a connection") {
    ends.open(at);
    CHECK(inherited_sockets() == before);
    check_open(ends);
  }
}

TEST_CASE("a name is resolved", "[net]") {
  pair_of_ends ends;
  ends.listen();
  auto to = ends.listener->bound();
  to.host = "localhost";
  ends.start_connect(to);
  REQUIRE(ends.until([&] { return ends.client && !ends.accepted.empty(); }));
  check_open(ends);
}

TEST_CASE("addresses of version 6 are listened at, connected to and told", "[net]") {
  pair_of_ends ends;
  try {
    ends.listen("[::1]:0");
  } catch (error const& e) {
    WARN("not tested, since this machine has none: " << e.what());
    return;
  }
  ends.start_connect();
  REQUIRE(ends.until([&] { return ends.client && !ends.accepted.empty(); }));
  CHECK(ends.listener->bound().text() == "[::1]:" + std::to_string(ends.listener->bound().port));
  CHECK(ends.client->peer() == ends.listener->bound().text());
  CHECK_THAT(ends.server().peer(), Contains("[::1]:"));
  check_open(ends);
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

TEST_CASE("nobody listens: told at once, with the address", "[net]") {
  pair_of_ends ends;
  ends.listen();
  auto const to = ends.listener->bound();
  ends.listener.reset();
  ends.start_connect(to);
  CHECK(ends.done_calls == 0);
  REQUIRE(ends.until([&] { return ends.done_calls == 1; }, 1s));
  CHECK_THAT(ends.reason, Contains(to.text()) && Contains("refused"));
  CHECK_FALSE(ends.refused);
}

namespace {

enum class outcome : int { fine, wrong, cannot_be_tried };

/// In this process, which is no other's any more, the system gives no other port to who connects.
bool leave_one_port(std::uint16_t port) {
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  int const s = ::socket(AF_INET, SOCK_DGRAM, 0);
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  bool const is_up = ::ioctl(s, SIOCSIFFLAGS, &loopback) == 0;
  ::close(s);
  std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
  range << port << " " << port << std::flush;
  return is_up && range.good();
}

outcome connect_to_itself() {
  constexpr std::uint16_t port = 40000;
  if (!leave_one_port(port)) return outcome::cannot_be_tried;
  pair_of_ends ends;
  ends.start_connect({"127.0.0.1", port});
  bool const told = ends.until([&] { return ends.done_calls == 1; });
  bool const may_try_again = !ends.refused && ends.reason.find("Connection refused") != std::string::npos;
  return told && !ends.client && may_try_again ? outcome::fine : outcome::wrong;
}

}  // namespace

TEST_CASE("nobody listens, and the system connects a process to itself: as if it had not", "[net]") {
  pid_t const child = ::fork();
  if (child == 0) ::_exit(static_cast<int>(connect_to_itself()));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  auto const seen = static_cast<outcome>(WEXITSTATUS(status));
  if (seen == outcome::cannot_be_tried) WARN("not tried: it takes a network of one's own");
  CHECK(seen != outcome::wrong);
}

TEST_CASE("one who dropped its attempt to connect is not told", "[net]") {
  pair_of_ends ends;
  ends.listen();
  ends.start_connect();
  SECTION("at once") { ends.attempt.reset(); }
  SECTION("in the middle") {
    ends.network.run_one();
    ends.attempt.reset();
  }
  bool up = false;
  auto const timer = ends.network.at(net::network::clock::now() + 20ms, [&] { up = true; });
  REQUIRE(ends.until([&] { return up; }));
  CHECK(ends.done_calls == 0);
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

// ---- strangers that hold handshakes

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
    (void)until([] { return false; }, 5ms);
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

TEST_CASE("beyond the loopback network only who asks for it listens", "[net]") {
  pair_of_ends ends;
  CHECK_THROWS_AS(ends.listen("0.0.0.0:0"), option_error);
  CHECK_THROWS_WITH(ends.listen("0.0.0.0:0"), Contains("0.0.0.0:0") && Contains("loopback"));
  ends.listening.beyond_loopback = true;
  ends.listen("0.0.0.0:0");
  CHECK(ends.listener->bound().port != 0);
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

TEST_CASE("an address that is taken is an error", "[net]") {
  pair_of_ends ends;
  ends.listen();
  auto const taken = ends.listener->bound().text();
  pair_of_ends others;
  CHECK_THROWS_WITH(others.listen(taken), Contains(taken) && Contains("in use"));
}

TEST_CASE("what a Unix-domain socket carries stays on the machine, of TCP nobody knows", "[net]") {
  temporary_folder const folder;
  bool const local = GENERATE(true, false);
  pair_of_ends ends;
  ends.open(local ? "unix:" + folder.file("socket") : "127.0.0.1:0");
  CHECK(ends.client->is_local() == local);
  CHECK(ends.server().is_local() == local);
}

TEST_CASE("how long a packet and its answer take is known of sockets", "[net]") {
  temporary_folder const folder;
  pair_of_ends ends;
  SECTION("TCP") { ends.open("127.0.0.1:0"); }
  SECTION("no line at all") {
    ends.open("unix:" + folder.file("socket"));
    CHECK(ends.client->round_trip() == 0us);
  }
  REQUIRE(ends.client->round_trip().has_value());
  REQUIRE(ends.server().round_trip().has_value());
}

TEST_CASE("files that come with bytes are not kept, asked for or not", "[net]") {
  temporary_folder const folder;
  auto const open_files = [] {
    using std::filesystem::directory_iterator;
    return std::distance(directory_iterator("/proc/self/fd"), directory_iterator());
  };
  pair_of_ends ends;
  ends.listen("unix:" + folder.file("socket"));
  raw_socket const stranger(ends.listener->bound());
  (void)ends.until([] { return false; }, 20ms);  // it is let in
  auto const before = open_files();
  std::array<std::byte, 1> const first{std::byte{'R'}};
  for (int i = 0; i < 3; ++i) {
    stranger.send_with_file(first, STDERR_FILENO);
    (void)ends.until([] { return false; }, 10ms);
    CHECK(open_files() == before);
  }
}

TEST_CASE("a Unix-domain socket's file", "[net]") {
  temporary_folder const folder;
  std::string const path = folder.file("socket");
  std::string const at = "unix:" + path;
  pair_of_ends ends;
  SECTION("is its user's only, and goes with the listener") {
    ends.open(at);
    CHECK(ends.listener->bound().text() == at);
    struct stat file;
    REQUIRE(::lstat(path.c_str(), &file) == 0);
    CHECK((file.st_mode & 0777) == 0600);
    ends.listener.reset();
    CHECK(std::filesystem::is_empty(std::filesystem::path(path).parent_path()));
    check_open(ends);
  }
  SECTION("is taken over when nobody listens there any more") {
    int const stale = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    std::memcpy(where.sun_path, path.data(), path.size());
    REQUIRE(::bind(stale, reinterpret_cast<sockaddr const*>(&where), sizeof where) == 0);
    SECTION("with a lock that another left behind, or without") {
      if (GENERATE(true, false)) std::ofstream(path + ".lock") << "";
    }
    SECTION("but not from one who is about to listen") {
      int const lock = ::open((path + ".lock").c_str(), O_RDWR | O_CREAT, 0600);
      REQUIRE(::flock(lock, LOCK_EX | LOCK_NB) == 0);
      CHECK_THROWS_WITH(ends.listen(at), Contains(at) && Contains("another process listens"));
      CHECK(std::filesystem::exists(path));
      CHECK(std::filesystem::exists(path + ".lock"));
      ::close(lock);
    }
    ::close(stale);
    REQUIRE(std::filesystem::exists(path));
    ends.open(at);
    check_open(ends);
  }
  SECTION("is left alone when somebody listens there") {
    ends.open(at);
    pair_of_ends others;
    CHECK_THROWS_WITH(others.listen(at), Contains(at) && Contains("another process listens"));
    check_open(ends);
  }
  SECTION("is left alone when it is no socket") {
    std::ofstream(path) << "data";
    CHECK_THROWS_WITH(ends.listen(at), Contains("no socket"));
    CHECK(std::filesystem::exists(path));
  }
  SECTION("has a name that the network chooses, where that is left to it") {
    ends.open(at + ".*");
    pair_of_ends others;
    others.open(at + ".*");
    std::string const one = ends.listener->bound().path, other = others.listener->bound().path;
    CHECK_THAT(one, Catch::StartsWith(path + "."));
    CHECK(one.back() != '*');
    CHECK(one != other);
    CHECK(std::filesystem::exists(one));
    check_open(ends);
    check_open(others);
    ends.listener.reset();
    others.listener.reset();
    CHECK(std::filesystem::is_empty(std::filesystem::path(path).parent_path()));
  }
  SECTION("has a path that fits") {
    CHECK_THROWS_AS(ends.listen("unix:/tmp/" + std::string(200, 'x')), option_error);
    auto const to = net::address::parse("unix:/tmp/" + std::string(200, 'x'));
    CHECK_THROWS_AS(ends.start_connect(to), option_error);
    CHECK_THROWS_WITH(ends.start_connect(to), Contains("at most 107 bytes, this has 205"));
  }
}
