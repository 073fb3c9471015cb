// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// TLS: who is let in, what both ends say when one is not, and that frames get through.
#include <openssl/ssl.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <rubato/core/error.hpp>
#include <rubato/net/impl/opening.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/net/impl/tls.hpp>
#include <rubato/net/impl/tls_context.hpp>

#include "certificates.hpp"
#include "ends.hpp"
#include "patience.hpp"

using namespace rubato;
using namespace rubato::test;
using Catch::Contains;

namespace {

/// Files of an authority, and of those that it has signed and has not.
class tls_folder {
 public:
  tls_folder() {
    write_certificate(authority_, folder_.file("authority.pem"));
    write_certificate(stranger_, folder_.file("stranger.pem"));
    add("server", make_identity(authority_, "server.test", 30, ",IP:192.0.2.7,IP:2001:db8::7"));
    add("client", make_identity(authority_, "client.test"));
    add("worker-1", make_identity(authority_, "worker.test", 30, ",URI:https://worker.test,URI:rubato:worker/1"));
    add("server-0", make_identity(authority_, "server.test", 30, ",URI:rubato:server/0"));
    add("misnamed", make_identity(authority_, "worker.test", 30, ",URI:rubato:wroker"));
    add("expired", make_identity(authority_, "expired.test", -1));
    add("foreign", make_identity(stranger_, "foreign.test"));
    identity const encrypted = make_identity(authority_, "encrypted.test");
    write_certificate(encrypted, folder_.file("encrypted-certificate.pem"));
    write_encrypted_key(encrypted, "secret", folder_.file("encrypted-key.pem"));
  }
  [[nodiscard]] net::security keys(std::string const& name,
                                   std::string const& authority = "authority") const {
    return {
        .token = {},
        .tls = net::tls_files{folder_.file(name + "-certificate.pem"),
                              folder_.file(name + "-key.pem"), folder_.file(authority + ".pem")},
        .beyond_loopback = false};
  }
  [[nodiscard]] std::string file(std::string const& name) const { return folder_.file(name); }

 private:
  void add(std::string const& name, identity const& who) const {
    write_certificate(who, folder_.file(name + "-certificate.pem"));
    write_key(who, folder_.file(name + "-key.pem"));
  }
  temporary_folder folder_;
  identity authority_ = make_authority("Authority of the tests");
  identity stranger_ = make_authority("Another authority");
};

tls_folder const& files() {
  static tls_folder const made;
  return made;
}

struct refusal {
  std::string at_client;
  std::string at_server;
};

/// As the one that listens is in the run, and the one that connects; and what that one expects the other to be.
struct places_in_run {
  wire::role server = wire::role::worker;
  wire::role client = wire::role::worker;
  std::optional<std::uint32_t> expected_number = {};
};

std::shared_ptr<ASN1_OCTET_STRING> no_names() {
  std::shared_ptr<ASN1_OCTET_STRING> const text(ASN1_OCTET_STRING_new(), ASN1_OCTET_STRING_free);
  ASN1_OCTET_STRING_set(text.get(), reinterpret_cast<unsigned char const*>("names"), 5);
  return text;
}

void connect_as(pair_of_ends& ends, places_in_run const& as) {
  ends.limits.as = as.server;
  ends.listen();
  ends.limits.as = as.client;
  ends.limits.expected_number = as.expected_number;
  ends.start_connect();
}

refusal refused(net::security const& server, net::security const& client, places_in_run const& as = {}) {
  log_capture const log;
  pair_of_ends ends;
  ends.listening = server;
  ends.connecting = client;
  connect_as(ends, as);
  REQUIRE(ends.until([&] { return ends.done_calls > 0 && !log.warnings().empty(); }));
  CHECK(ends.client == nullptr);
  CHECK(ends.accepted.empty());
  CHECK_THAT(ends.reason, Contains(ends.listener->bound().text()));
  CHECK(ends.refused);
  ends.network.poll();
  CHECK(ends.done_calls == 1);
  return {ends.reason, log.warnings()};
}

void check_exchange(pair_of_ends& ends, std::size_t size) {
  auto const body = pattern(size);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ends.client->send({.kind = 1, .sequence = i}, pattern(20), body);
    ends.server().send({.kind = 2, .sequence = i}, pattern(30), body);
    ends.client->send({.kind = 1}, {}, {});
  }
  ends.client->flush();
  ends.server().flush();
  REQUIRE(ends.until([&] { return ends.at_server.ended == 6 && ends.at_client.ended == 3; }));
  CHECK((ends.at_server.frames[4].body == body));
  CHECK((ends.at_client.frames[2].body == body));
  CHECK(ends.at_client.frames[2].meta == pattern(30));
  CHECK(ends.client->unsent() == 0);
}

/// As for a network, of streams by themselves.
template <class Condition>
bool run_until(boost::asio::io_context& context, Condition condition) {
  auto const end = net::network::clock::now() + test::patience;
  while (!condition()) {
    if (net::network::clock::now() >= end) return false;
    context.restart();  // it stops when there is nothing to wait for
    context.run_one_for(1ms);
  }
  return true;
}

/// Why the connecting end of two that hold a socket each does not come through, for a server of
/// this name; empty when it does.
std::string opened_for(std::string const& name) {
  using net::handshake;
  boost::asio::io_context context;
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  auto const end = [&](int fd, handshake::role mine, char const* files_of,
                       net::opening::told done) {
    net::socket_type socket(context, boost::asio::generic::stream_protocol(AF_UNIX, 0), fd);
    net::error_code error;
    net::prepare_socket(socket, error);
    auto const tls = net::make_tls_context(*files().keys(files_of).tls);
    auto const host = mine == handshake::role::connecting ? name : std::string();
    auto made = std::make_shared<net::opening>(
        net::host_of(context), net::tls_stream(tls, std::move(socket), mine, host), mine, "", net::connection_options{},
        std::move(done));
    made->start(net::network::clock::now() + test::patience);
    return made;
  };
  int calls = 0;
  std::string reason;
  auto const server = end(fds[0], handshake::role::accepting, "server",
                          [&](std::unique_ptr<net::stream>, std::string const&, bool) { ++calls; });
  auto const client = end(fds[1], handshake::role::connecting, "client",
                          [&](std::unique_ptr<net::stream>, std::string const& why, bool) {
                            ++calls;
                            reason = why;
                          });
  REQUIRE(run_until(context, [&] { return calls == 2; }));
  return reason;
}

/// A peer that is not this library: OpenSSL on a socket, which it does not wait for.
class foreign_tls {
 public:
  explicit foreign_tls(int fd)
      : context_(net::make_tls_context(*files().keys("client").tls)),
        ssl_(SSL_new(context_->get()), SSL_free) {
    SSL_set_fd(ssl_.get(), fd);
    SSL_set_connect_state(ssl_.get());
  }
  foreign_tls(foreign_tls const&) = delete;
  foreign_tls& operator=(foreign_tls const&) = delete;
  ~foreign_tls() { std::signal(SIGPIPE, before_); }
  /// Whether the handshake is over, and otherwise goes on with it.
  [[nodiscard]] bool shakes() { return SSL_do_handshake(ssl_.get()) == 1; }
  void send_letter() { REQUIRE(SSL_write(ssl_.get(), "x", 1) == 1); }
  /// Reads all that has come.
  void read() {
    bytes some(1 << 16);
    for (;;) {
      int const size = SSL_read(ssl_.get(), some.data(), static_cast<int>(some.size()));
      if (size <= 0) {
        ended_well_ = SSL_get_error(ssl_.get(), size) == SSL_ERROR_ZERO_RETURN;
        return;
      }
      got.insert(got.end(), some.begin(), some.begin() + size);
    }
  }
  /// The other end has said that nothing more comes, not just cut the line.
  [[nodiscard]] bool ended_well() const noexcept { return ended_well_; }
  bytes got;

 private:
  std::shared_ptr<net::tls_context const> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  // To a line that was cut OpenSSL would answer.
  void (*before_)(int) = std::signal(SIGPIPE, SIG_IGN);
  bool ended_well_ = false;
};

struct once_told final : net::stream::user {
  bytes room = bytes(100);
  boost::asio::mutable_buffer buffer{room.data(), room.size()};
  std::size_t told = 0;  // bytes
  void was_read(net::error_code const&, std::size_t size) override { told = size; }
  void may_write(net::error_code const&) override {}
};

}  // namespace

TEST_CASE("frames go both ways over TLS", "[net][tls]") {
  pair_of_ends ends;
  ends.listening = files().keys("server");
  ends.connecting = files().keys("client");
  std::size_t const size = GENERATE(0U, 100U, 20'000U, 700'000U);
  SECTION("over TCP") {
    ends.open();
    CHECK(ends.client->round_trip().has_value());
  }
  SECTION("over TCP, with a token as well") {
    ends.listening.token = ends.connecting.token = "secret";
    ends.open();
  }
  SECTION("over a Unix-domain socket") {
    ends.open("unix:" + files().file("socket"));
    check_exchange(ends, size);
    ends.listener.reset();
    return;
  }
  check_exchange(ends, size);
}

TEST_CASE("a large body goes over TLS", "[net][tls]") {
  pair_of_ends ends;
  ends.listening = files().keys("server");
  ends.connecting = files().keys("client");
  ends.at_server.parts = 7;
  ends.open();
  auto const body = pattern(16 << 20);
  ends.client->send({.kind = 1}, {}, body);
  REQUIRE(ends.until([&] { return ends.at_server.ended == 1; }));
  CHECK((ends.at_server.frames[0].body == body));
  ends.network.poll();
  CHECK(ends.at_client.writable_calls == 1);
}

TEST_CASE("what was sent before a close arrives over TLS", "[net][tls]") {
  pair_of_ends ends;
  ends.listening = files().keys("server");
  ends.connecting = files().keys("client");
  ends.open();
  ends.client->send({.kind = 1}, {}, pattern(50'000));
  ends.client.reset();
  REQUIRE(ends.until([&] { return ends.at_server.is_closed(); }));
  CHECK(ends.at_server.ended == 1);
  CHECK_THAT(ends.at_server.reason(), Contains("closed by the peer"));
}

TEST_CASE("what is encrypted and had found no room goes out at a close, if there is room by then",
          "[net][tls]") {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
  int const little = 30'000;
  REQUIRE(::setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof little) == 0);
  boost::asio::io_context context;
  net::socket_type socket(context, boost::asio::generic::stream_protocol(AF_UNIX, 0),
                          fds[0]);
  net::error_code error;
  net::prepare_socket(socket, error);
  auto const stream = net::tls_stream(net::make_tls_context(*files().keys("server").tls),
                                      std::move(socket), net::handshake::role::accepting, {});
  auto const user = std::make_shared<once_told>();
  stream->read(std::span(&user->buffer, 1), 0, user);
  foreign_tls peer(fds[1]);
  REQUIRE(run_until(context, [&] { return peer.shakes(); }));
  peer.send_letter();  // once it is there, both know that the handshake is over
  REQUIRE(run_until(context, [&] { return user->told == 1; }));
  auto const sent = pattern(60'000);
  boost::asio::const_buffer const buffer(sent.data(), sent.size());
  // The stream has all of it, and the peer as much as the system took.
  REQUIRE(stream->write(std::span(&buffer, 1), error) == sent.size());
  peer.read();
  REQUIRE(peer.got.size() < sent.size());
  bytes expected = sent;
  SECTION("by itself") {}
  SECTION("with last words behind it") {
    boost::asio::const_buffer const words("because", 7);
    CHECK(stream->write(std::span(&words, 1), error) == 7);
    expected = joined({sent, bytes(as_bytes("because").begin(), as_bytes("because").end())});
  }
  stream->close();
  peer.read();
  CHECK((peer.got == expected));
  CHECK(peer.ended_well());
  context.poll();
  ::close(fds[1]);
}

TEST_CASE("a stranger in its TLS handshake gives way, and goes when it took too long", "[net][tls]") {
  log_capture const log;
  pair_of_ends ends;
  ends.listening = files().keys("server");
  ends.connecting = files().keys("client");
  ends.limits.handshakes_max = 1;
  ends.limits.handshake = 300ms;
  ends.listen();
  raw_socket stranger(ends.listener->bound());
  SECTION("silent") {}
  SECTION("in the middle of it") { stranger.send(bytes{std::byte{0x16}, std::byte{3}}); }
  raw_socket another(ends.listener->bound());
  CHECK(stranger.sees_end(ends.network));
  CHECK_THAT(log.warnings(), Contains("1 handshakes are under way"));
  CHECK_FALSE(another.has_ended());
  CHECK(another.sees_end(ends.network));
  CHECK_THAT(log.warnings(), Contains("the handshake took too long"));
  ends.limits.handshake = 5s;
  ends.start_connect();
  REQUIRE(ends.until([&] { return ends.client && ends.accepted.size() == 1; }));
}

TEST_CASE("who is closed before anything was said has not been refused", "[net][tls]") {
  bool const encrypted = GENERATE(true, false);
  log_capture const log;
  pair_of_ends ends;
  if (encrypted) {
    ends.listening = files().keys("server");
    ends.connecting = files().keys("client");
  }
  ends.limits.connections_max = 1;
  ends.open();
  ends.start_connect();
  REQUIRE(ends.until([&] { return ends.done_calls == 2; }));
  CHECK_FALSE(ends.client);
  CHECK_FALSE(ends.refused);
}

TEST_CASE("a wrong token is refused over TLS", "[net][tls]") {
  auto server = files().keys("server");
  auto client = files().keys("client");
  server.token = "one";
  client.token = "other";
  auto const why = refused(server, client);
  CHECK_THAT(why.at_client, Contains("the token is wrong"));
  CHECK_THAT(why.at_server, Contains("the token is wrong"));
}

TEST_CASE("a certificate that is not accepted is named at both ends", "[net][tls]") {
  SECTION("the client's is of another authority") {
    auto const why = refused(files().keys("server"), files().keys("foreign"));
    CHECK_THAT(why.at_server, Contains("the peer's certificate is not accepted") &&
                                  Contains("issuer certificate"));
    CHECK_THAT(why.at_client, Contains("the peer refused our certificate: unknown CA"));
  }
  SECTION("the client's has expired") {
    auto const why = refused(files().keys("server"), files().keys("expired"));
    CHECK_THAT(why.at_server, Contains("the peer's certificate is not accepted: "
                                       "certificate has expired"));
    CHECK_THAT(why.at_client, Contains("the peer refused our certificate: certificate expired"));
  }
  SECTION("the server's is of another authority") {
    auto const why = refused(files().keys("foreign"), files().keys("client"));
    CHECK_THAT(why.at_client, Contains("the peer's certificate is not accepted"));
    CHECK_THAT(why.at_server, Contains("the peer refused our certificate: unknown CA"));
  }
  SECTION("the server's has expired") {
    auto const why = refused(files().keys("expired"), files().keys("client"));
    CHECK_THAT(why.at_client, Contains("certificate has expired"));
    CHECK_THAT(why.at_server, Contains("the peer refused our certificate: certificate expired"));
  }
  SECTION("the client trusts another authority") {
    auto const why = refused(files().keys("server"), files().keys("client", "stranger"));
    CHECK_THAT(why.at_client, Contains("the peer's certificate is not accepted"));
    CHECK_THAT(why.at_server, Contains("the peer refused our certificate"));
  }
}

TEST_CASE("a certificate that is for a place in the run is for no other, and both ends say so", "[net][tls]") {
  using wire::role;
  SECTION("the one that connects") {
    auto const claimed = GENERATE(role::server, role::coordinator);
    auto const why = refused(files().keys("server"), files().keys("worker-1"), {.client = claimed});
    std::string const sentence =
        std::string("the certificate of this ") + to_string(claimed) + " is for worker 1 only";
    CHECK_THAT(why.at_server, Contains("refused: " + sentence));
    CHECK_THAT(why.at_client, Contains("the other end refused: " + sentence));
  }
  SECTION("the one that listens, as another role") {
    auto const why = refused(files().keys("worker-1"), files().keys("client"), {.server = role::server});
    CHECK_THAT(why.at_client, Contains("the certificate of this server is for worker 1 only"));
    CHECK_THAT(why.at_server, Contains("the other end refused: the certificate of this server is for worker 1 only"));
  }
  SECTION("the one that listens, as another number") {
    auto const why =
        refused(files().keys("server-0"), files().keys("client"), {.server = role::server, .expected_number = 1});
    std::string const sentence = "the certificate of this server is for server 0 only, and not for server 1";
    CHECK_THAT(why.at_client, Contains(sentence));
    CHECK_THAT(why.at_server, Contains("the other end refused: " + sentence));
  }
}

TEST_CASE("a certificate for a place in the run is good there, and one that says nothing of it everywhere",
          "[net][tls]") {
  using wire::role;
  pair_of_ends ends;
  bool const is_named = GENERATE(true, false);
  ends.listening = files().keys(is_named ? "server-0" : "server");
  ends.connecting = files().keys(is_named ? "worker-1" : "client");
  connect_as(ends, {.server = role::server, .expected_number = 0});
  REQUIRE(ends.until([&] { return ends.client && !ends.accepted.empty(); }));
  CHECK(ends.client->shown().objection(role::server, 1).has_value() == is_named);
  CHECK_FALSE(ends.client->shown().objection(role::server, 0));
  CHECK(ends.server().shown().objection(role::worker, 0).has_value() == is_named);
  CHECK_FALSE(ends.server().shown().objection(role::worker, 1));
}

TEST_CASE("names of a certificate that cannot be read are not taken for none", "[net][tls]") {
  auto const authority = make_authority("Authority of the tests");
  CHECK(net::uris_of(authority.certificate.get()) == std::vector<std::string>{});
  auto const named = make_identity(authority, "x.test", 30, ",URI:rubato:worker,IP:192.0.2.7,URI:https://x.test");
  X509* const c = named.certificate.get();
  CHECK(net::uris_of(c) == std::vector<std::string>{"rubato:worker", "https://x.test"});
  SECTION("there are two lists") { test::certificates::add_extension(c, c, NID_subject_alt_name, "URI:rubato:server"); }
  SECTION("there is something else in their place") {
    X509_EXTENSION_set_data(X509_get_ext(c, X509_get_ext_by_NID(c, NID_subject_alt_name, -1)), no_names().get());
  }
  CHECK_FALSE(net::uris_of(c));
  CHECK_FALSE(net::uris_of(nullptr));
}

TEST_CASE("a process with a certificate that would not be understood does not start", "[net][tls]") {
  pair_of_ends ends;
  ends.listening = files().keys("misnamed");
  CHECK_THROWS_WITH(ends.listen(), Contains("misnamed-certificate.pem', cannot be used: the certificate is for "
                                            "'rubato:wroker', expected rubato:worker, "));
}

TEST_CASE("TLS at one end only is refused, and both ends say so", "[net][tls]") {
  SECTION("at the listener") {
    auto const why = refused(files().keys("server"), {});
    CHECK_THAT(why.at_client, Contains("the other end refused: this listener expects TLS"));
    CHECK_THAT(why.at_server, Contains("the peer does not speak TLS, this listener expects it"));
  }
  SECTION("at the one that connects") {
    auto const why = refused({}, files().keys("client"));
    CHECK_THAT(why.at_client, Contains("does not speak TLS; is it on at both ends?"));
    CHECK_THAT(why.at_server, Contains("the peer speaks TLS, this listener does not"));
  }
}

TEST_CASE("a client without a certificate is refused", "[net][tls]") {
  log_capture const log;
  pair_of_ends ends;
  ends.listening = files().keys("server");
  ends.listen();
  // A client of another make.
  raw_socket raw(ends.listener->bound());
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> const context(SSL_CTX_new(TLS_client_method()),
                                                             SSL_CTX_free);
  std::unique_ptr<SSL, void (*)(SSL*)> const ssl(SSL_new(context.get()), SSL_free);
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), in, out);
  SSL_set_connect_state(ssl.get());
  REQUIRE(ends.until([&] {
    auto const some = raw.read();
    if (!some.empty()) BIO_write(in, some.data(), static_cast<int>(some.size()));
    char letter = 0;
    (void)SSL_read(ssl.get(), &letter, 1);
    bytes answer(1 << 14);
    int const size = BIO_read(out, answer.data(), static_cast<int>(answer.size()));
    if (size > 0) raw.send(std::span(answer).first(static_cast<std::size_t>(size)));
    return !log.warnings().empty();
  }));
  CHECK_THAT(log.warnings(), Contains("the peer showed no certificate"));
  CHECK(ends.accepted.empty());
}

TEST_CASE("a certificate must be for the name or the number that is connected to", "[net][tls]") {
  auto const [name, expected] = GENERATE(table<std::string, std::string>(
      {{"server.test", ""}, {"", ""}, {"other.test", "hostname mismatch"},
       {"192.0.2.7", ""}, {"2001:db8::7", ""}, {"2001:DB8:0::7", ""},
       {"192.0.2.8", "IP address mismatch"}, {"2001:db8::8", "IP address mismatch"}}));
  auto const reason = opened_for(name);
  CHECK(reason.empty() == expected.empty());
  CHECK_THAT(reason, Contains(expected));
}

TEST_CASE("who is reached by a number beyond loopback shows a certificate for it", "[net][tls]") {
  log_capture const log;
  pair_of_ends ends;
  // The number by which this machine would reach others; nothing is sent.
  auto const here = ends.network.reached({.host = "0.0.0.0", .port = 0}, {.host = "192.0.2.1", .port = 9});
  if (!here || here->is_name() || here->is_loopback()) {
    WARN("not tested: this machine is on no network");
    return;
  }
  ends.listening = files().keys("server");
  ends.connecting = files().keys("client");
  ends.listening.beyond_loopback = true;
  ends.listen(here->text());
  ends.start_connect();
  REQUIRE(ends.until([&] { return ends.done_calls == 1; }));
  CHECK_THAT(ends.reason, Contains("the peer's certificate is not accepted: IP address mismatch"));
  CHECK(ends.refused);
}

TEST_CASE("a name of this machine needs no certificate of its own", "[net][tls]") {
  pair_of_ends ends;
  ends.listening = files().keys("server");
  ends.connecting = files().keys("client");
  ends.listen();
  auto to = ends.listener->bound();
  to.host = "localhost";
  ends.start_connect(to);
  REQUIRE(ends.until([&] { return ends.client && !ends.accepted.empty(); }));
}

TEST_CASE("heartbeats keep a connection open over TLS", "[net][tls]") {
  pair_of_ends ends;
  ends.limits.silence = 100ms;
  ends.listening = files().keys("server");
  ends.connecting = files().keys("client");
  ends.open();
  bool up = false;
  auto const timer = ends.network.at(net::network::clock::now() + 250ms, [&] { up = true; });
  REQUIRE(ends.until([&] { return up; }));
  CHECK(ends.client->is_open());
  CHECK(ends.server().is_open());
}

TEST_CASE("bytes that are no TLS close a connection that was", "[net][tls]") {
  log_capture const log;
  pair_of_ends ends;
  ends.listening = files().keys("server");
  ends.listen();
  raw_socket raw(ends.listener->bound());
  bytes broken(300, std::byte{0x55});
  broken[0] = std::byte{0x16};
  raw.send(broken);
  CHECK(raw.sees_end(ends.network));
  CHECK_THAT(log.warnings(), Contains("TLS failed"));
}

TEST_CASE("files that cannot be used for TLS are named", "[net][tls]") {
  pair_of_ends ends;
  auto keys = files().keys("server");
  SECTION("a key for which somebody would have to be asked") {
    ends.listening = files().keys("encrypted");
    CHECK_THROWS_WITH(ends.listen(), Contains("the key of TLS, '") &&
                                         Contains("encrypted-key.pem', cannot be used: it is encrypted, expected one "
                                                  "without a pass phrase"));
  }
  SECTION("no such certificate") {
    keys.tls->certificate = "/no/such/file";
    ends.listening = keys;
    CHECK_THROWS_AS(ends.listen(), option_error);
    CHECK_THROWS_WITH(ends.listen(), Contains("certificate") &&
                                             Contains("'/no/such/file', cannot be used: No such file or directory"));
  }
  SECTION("no such authority") {
    keys.tls->authority = "/no/such/file";
    ends.listening = keys;
    CHECK_THROWS_WITH(ends.listen(), Contains("authority") && Contains("No such file or directory"));
  }
  SECTION("a key of another certificate") {
    keys.tls->key = files().keys("client").tls->key;
    ends.listening = keys;
    CHECK_THROWS_WITH(ends.listen(), Contains("key") && Contains(keys.tls->key));
  }
  SECTION("an authority that is none") {
    keys.tls->authority = keys.tls->key;
    ends.listening = keys;
    CHECK_THROWS_WITH(ends.listen(), Contains("authority") && Contains(keys.tls->authority));
  }
  SECTION("at the one that connects") {
    ends.listen();
    keys.tls->key = "/no/such/file";
    ends.connecting = keys;
    CHECK_THROWS_AS(ends.start_connect(), option_error);
    CHECK_THROWS_WITH(ends.start_connect(), Contains("key") && Contains("/no/such/file"));
  }
}
