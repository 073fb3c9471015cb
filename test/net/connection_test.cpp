// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Frames over connections: what arrives, when who is told, and what a broken peer can do.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "ends.hpp"

using namespace rubato;
using namespace rubato::test;
using Catch::Contains;

namespace {

wire::frame_header header_of(std::uint8_t kind, std::uint64_t sequence = 0) {
  wire::frame_header h;
  h.kind = kind;
  h.table = 3;
  h.sender = 12;
  h.incarnation = 2;
  h.sequence = sequence;
  return h;
}

/// A body in pieces of these sizes, in turn.
class pieces final : public net::body_source {
 public:
  pieces(bytes all, std::vector<std::size_t> sizes, bool* gone = nullptr)
      : all_(std::move(all)), sizes_(std::move(sizes)), gone_(gone) {}
  pieces(pieces const&) = delete;
  pieces& operator=(pieces const&) = delete;
  ~pieces() override {
    if (gone_ != nullptr) *gone_ = true;
  }
  std::span<std::byte const> next() override {
    std::size_t const size = std::min(sizes_[turn_++ % sizes_.size()], all_.size() - at_);
    // A copy that is overwritten by the next call shows whether the last piece was still in use.
    piece_.assign(all_.begin() + static_cast<std::ptrdiff_t>(at_),
                  all_.begin() + static_cast<std::ptrdiff_t>(at_ + size));
    at_ += size;
    return piece_;
  }

 private:
  bytes all_, piece_;
  std::vector<std::size_t> sizes_;
  bool* gone_;
  std::size_t at_ = 0;
  std::size_t turn_ = 0;
};

std::vector<std::size_t> const sizes{0,     1,     7,      500,    8191,   8192,   8193,
                                     20000, 65536, 262143, 262144, 262145, 3000000};

void check_all_sizes(pair_of_ends& ends) {
  auto const meta = pattern(33, 5);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ends.client->send(header_of(1, i), meta, pattern(sizes[i], i));
    ends.server().send(header_of(2, i), meta, pattern(sizes[i], i + 1));
  }
  ends.client->flush();
  ends.server().flush();
  REQUIRE(ends.until([&] {
    return ends.at_server.ended == sizes.size() && ends.at_client.ended == sizes.size();
  }));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto const& there = ends.at_server.frames[i];
    CHECK(there.header.kind == 1);
    CHECK(there.header.table == 3);
    CHECK(there.header.sender == 12);
    CHECK(there.header.incarnation == 2);
    CHECK(there.header.sequence == i);
    CHECK(there.header.meta == meta.size());
    CHECK(there.header.length == sizes[i]);
    CHECK(there.meta == meta);
    CHECK((there.body == pattern(sizes[i], i)));
    CHECK((ends.at_client.frames[i].body == pattern(sizes[i], i + 1)));
  }
  CHECK(ends.client->unsent() == 0);
  CHECK(ends.at_server.drained_calls >= 1);
}

/// A peer that sends these bytes after its handshake; the reason why it was closed.
std::string reason_against(bytes const& sent, bool closes = false) {
  log_capture const log;
  pair_of_ends ends;
  ends.open();
  recorder& good = ends.at_server;
  raw_socket bad(ends.listener->bound());
  bad.greet(ends.network);
  REQUIRE(ends.until([&] { return ends.accepted.size() == 2; }));
  recorder against;
  // Both were attached to the same recorder; the second has its own from here on.
  ends.accepted[1]->attach(against);
  bad.send(sent);
  if (closes) bad.close();
  REQUIRE(ends.until([&] { return against.is_closed(); }));
  CHECK(against.reasons.size() == 1);
  CHECK_FALSE(ends.accepted[1]->is_open());
  if (!closes) CHECK_THAT(log.warnings(), Contains(against.reason()));
  CHECK_THAT(against.reason(), Contains("127.0.0.1:"));

  std::size_t const before = good.ended;
  ends.client->send(header_of(1), {}, pattern(10));
  ends.client->flush();
  REQUIRE(ends.until([&] { return good.ended == before + 1; }));
  CHECK_FALSE(good.is_closed());
  return against.reason();
}

}  // namespace

TEST_CASE("frames of all sizes arrive as they were sent", "[net]") {
  pair_of_ends ends;
  SECTION("over TCP") {
    ends.open();
    check_all_sizes(ends);
  }
  SECTION("over TCP, with bodies in many parts") {
    ends.at_server.parts = 100;
    ends.at_client.parts = 3;
    ends.open();
    check_all_sizes(ends);
  }
  SECTION("over a Unix-domain socket") {
    temporary_folder const folder;
    ends.open("unix:" + folder.file("socket"));
    check_all_sizes(ends);
    ends.listener.reset();
  }
}

TEST_CASE("frames that come byte by byte are put together", "[net]") {
  pair_of_ends ends;
  ends.listen();
  raw_socket raw(ends.listener->bound());
  raw.greet(ends.network);
  REQUIRE(ends.until([&] { return ends.accepted.size() == 1; }));
  auto const heartbeat = encoded(header_of(0), {}, {});
  auto const all = joined({encoded(header_of(9, 1), pattern(11), pattern(70, 1)), heartbeat,
                           encoded(header_of(9, 2), {}, {})});
  for (std::byte const& b : all) {
    raw.send(std::span(&b, 1));
    ends.network.poll();
  }
  REQUIRE(ends.until([&] { return ends.at_server.ended == 2; }));
  CHECK(ends.at_server.frames[0].meta == pattern(11));
  CHECK(ends.at_server.frames[0].body == pattern(70, 1));
  CHECK(ends.at_server.frames[1].header.sequence == 2);
}

TEST_CASE("a split at any place changes nothing", "[net]") {
  pair_of_ends ends;
  ends.listen();
  raw_socket raw(ends.listener->bound());
  raw.greet(ends.network);
  REQUIRE(ends.until([&] { return ends.accepted.size() == 1; }));
  auto const all = joined({encoded(header_of(9, 1), pattern(11), pattern(20, 1)),
                           encoded(header_of(9, 2), pattern(3), {})});
  std::size_t expected = 0;
  for (std::size_t at = 1; at < all.size(); ++at) {
    raw.send(std::span(all).first(at));
    ends.network.poll();
    raw.send(std::span(all).subspan(at));
    expected += 2;
    REQUIRE(ends.until([&] { return ends.at_server.ended == expected; }));
    CHECK(ends.at_server.frames[expected - 2].body == pattern(20, 1));
    CHECK(ends.at_server.frames[expected - 1].meta == pattern(3));
  }
}

TEST_CASE("what is no frame closes its connection, and no other", "[net]") {
  auto bad = encoded(header_of(9, 1), pattern(4), pattern(4));
  SECTION("magic") {
    bad[0] = std::byte{'X'};
    CHECK_THAT(reason_against(bad), Contains("magic"));
  }
  SECTION("version") {
    bad[4] = std::byte{2};
    CHECK_THAT(reason_against(bad), Contains("a frame of version 2, expected " + std::to_string(wire::frame_version)));
  }
  SECTION("reserved field") {
    bad[28] = std::byte{1};
    CHECK_THAT(reason_against(bad), Contains("reserved"));
  }
  SECTION("meta beyond the limit") {
    std::uint32_t const meta = 64 * 1024 + 1;
    std::memcpy(&bad[24], &meta, sizeof meta);
    CHECK_THAT(reason_against(bad), Contains("65537 bytes of meta, at most 65536"));
  }
  SECTION("a heartbeat with a body") {
    bad[5] = std::byte{0};
    CHECK_THAT(reason_against(bad), Contains("heartbeat"));
  }
  SECTION("a frame that ends early") {
    bad.pop_back();
    CHECK_THAT(reason_against(bad, true), Contains("closed by the peer"));
  }
}

TEST_CASE("what the receiver throws closes the connection with that reason", "[net]") {
  log_capture const log;
  pair_of_ends ends;
  ends.open();
  std::string expected = "too large for this table";
  SECTION("begin: a frame_error") {
    ends.at_server.on_begin = [&] { throw wire::frame_error(expected); };
  }
  SECTION("end: a frame_error") {
    ends.at_server.on_end = [&] { throw wire::frame_error(expected); };
  }
  SECTION("end: another error") {
    ends.at_server.on_end = [&] { throw std::runtime_error(expected); };
  }
  SECTION("drained") {
    ends.at_server.on_drained = [&] { throw std::runtime_error(expected); };
  }
  SECTION("room that does not fit the body") {
    ends.at_server.parts = 0;
    expected = "has a body of 5 bytes, but was given room for 0";
  }
  ends.client->send(header_of(4), {}, pattern(5));
  ends.client->flush();
  REQUIRE(ends.until([&] { return ends.at_server.is_closed() && ends.at_client.is_closed(); }));
  CHECK_THAT(ends.at_server.reason(), Contains(expected) && Contains("127.0.0.1:"));
  CHECK_THAT(log.warnings(), Contains(expected));
  CHECK_THAT(ends.at_client.reason(), Contains("closed by the peer"));
}

TEST_CASE("a body that is given room piece by piece arrives whole", "[net]") {
  pair_of_ends ends;
  ends.open();
  auto& windows = ends.at_server.windows;
  SECTION("of a byte") { windows = {1}; }
  SECTION("small") { windows = {1000, 3, 77}; }
  SECTION("large") { windows = {256 * 1024}; }
  SECTION("a mixture") { windows = {500'000, 1, 33'000, 8}; }
  std::size_t const size = windows.front() == 1 ? 5000 : 3'000'000;
  for (std::size_t i = 0; i < 3; ++i)
    ends.client->send(header_of(1, 1 + i), pattern(3), pattern(size + i, i));
  ends.client->flush();
  REQUIRE(ends.until([&] { return ends.at_server.ended == 3; }, 20s));
  for (std::size_t i = 0; i < 3; ++i) CHECK((ends.at_server.frames[i].body == pattern(size + i, i)));
  CHECK(ends.at_server.asked_more >= 3 * (size / 500'000));
}

TEST_CASE("room for a part of a body, and then none or too much, closes the connection", "[net]") {
  struct stingy : recorder {
    std::size_t rest = 0;
    void more(wire::frame_header const&, std::vector<std::span<std::byte>>& body) override {
      if (frames.back().body.size() == 5 && asked_more++ == 0)
        body.push_back(std::span(frames.back().body).first(2));
      else if (rest != 0)
        body.push_back(std::span(frames.back().body).first(rest));
    }
  } at_server;
  pair_of_ends ends;
  at_server.windows = {1};
  std::string expected = "has a body of 5 bytes, but was given room for 2";
  SECTION("none") {}
  SECTION("too much") {
    at_server.rest = 4;
    expected = "has a body of 5 bytes, but was given room for 6";
  }
  ends.listener = ends.network.listen(net::address::parse("127.0.0.1:0"), net::security{}, ends.limits,
      [&](std::unique_ptr<net::connection> c) {
        c->attach(at_server);
        ends.accepted.push_back(std::move(c));
      });
  ends.start_connect();
  REQUIRE(ends.until([&] { return ends.client && !ends.accepted.empty(); }));
  ends.client->send(header_of(4), {}, pattern(5));
  ends.client->flush();
  REQUIRE(ends.until([&] { return at_server.is_closed(); }));
  CHECK_THAT(at_server.reason(), Contains(expected));
}

TEST_CASE("a body's source is asked piece by piece, and destroyed when it is sent", "[net]") {
  pair_of_ends ends;
  ends.open();
  std::vector<std::size_t> turns;
  SECTION("small pieces") { turns = {1, 100, 4096}; }
  SECTION("large pieces") { turns = {8193, 300000, 1 << 20}; }
  SECTION("a mixture") { turns = {5, 100000, 8192, 8193, 1, 1, 70000}; }
  auto const body = pattern(5'000'000);
  bool gone = false;
  ends.client->send(header_of(1, 1), pattern(3), pattern(40));
  ends.client->send(header_of(1, 2), pattern(5), body.size(),
                    std::make_unique<pieces>(body, turns, &gone));
  ends.client->send(header_of(1, 3), pattern(7), pattern(60));
  CHECK(ends.client->unsent() > 0);
  ends.client->flush();
  REQUIRE(ends.until([&] { return ends.at_server.ended == 3; }));
  CHECK(gone);
  CHECK((ends.at_server.frames[1].body == body));
  CHECK(ends.at_server.frames[2].body == pattern(60));
  CHECK(ends.client->unsent() == 0);
}

TEST_CASE("a source that gives too little or too much closes the connection", "[net]") {
  log_capture const log;
  pair_of_ends ends;
  ends.open();
  std::uint64_t const said = GENERATE(100'000U, 299'999U);
  bytes const body = pattern(said == 100'000U ? 99'999 : 300'000);
  ends.client->send(header_of(1), {}, said,
                    std::make_unique<pieces>(body, std::vector<std::size_t>{150'000}));
  ends.client->flush();
  CHECK_FALSE(ends.at_client.is_closed());  // never from inside a call of the owner's
  REQUIRE(ends.until([&] { return ends.at_client.is_closed() && ends.at_server.is_closed(); }));
  CHECK_THAT(ends.at_client.reason(), Contains("the source of a body gave"));
}

TEST_CASE("a slow reader holds back what is sent to it, and tells when there is room", "[net]") {
  pair_of_ends ends;
  ends.listen();
  raw_socket slow(ends.listener->bound());
  slow.greet(ends.network);
  REQUIRE(ends.until([&] { return ends.accepted.size() == 1; }));
  std::size_t const frames = 500;
  auto const body = pattern(60'000);
  for (std::size_t i = 0; i < frames; ++i) ends.server().send(header_of(1, i), {}, body);
  ends.network.poll();
  CHECK(ends.server().unsent() > 10'000'000);
  CHECK(ends.at_server.writable_calls == 0);
  bytes got;
  std::size_t const total = frames * (body.size() + wire::frame_header_size);
  got.reserve(total);
  REQUIRE(ends.until([&] {
    auto const some = slow.read();
    got.insert(got.end(), some.begin(), some.end());
    return got.size() == total;
  }));
  ends.network.poll();
  CHECK(ends.server().unsent() == 0);
  CHECK(ends.at_server.writable_calls == 1);
  auto const last = encoded(header_of(1, frames - 1), {}, body);
  CHECK(std::equal(last.begin(), last.end(), got.end() - static_cast<std::ptrdiff_t>(last.size())));
}

TEST_CASE("small frames wait for a flush, or until there are many", "[net]") {
  pair_of_ends ends;
  ends.open();
  ends.client->send(header_of(1), {}, pattern(100));
  CHECK(ends.client->unsent() == 140);
  ends.client->flush();
  CHECK(ends.client->unsent() == 0);
  for (int i = 0; i < 467; ++i) ends.client->send(header_of(1), {}, pattern(100));
  CHECK(ends.client->unsent() == 467 * 140);
  ends.client->send(header_of(1), {}, pattern(200));
  CHECK(ends.client->unsent() == 0);
}

TEST_CASE("answers from inside a callback are flushed when all has been handed over", "[net]") {
  pair_of_ends ends;
  ends.open();
  ends.at_server.on_end = [&] { ends.server().send(header_of(2), {}, pattern(5)); };
  for (int i = 0; i < 10; ++i) ends.client->send(header_of(1), {}, {});
  ends.client->flush();
  REQUIRE(ends.until([&] { return ends.at_client.ended == 10; }));
  CHECK(ends.at_server.drained_calls == 1);
}

TEST_CASE("a large body over a slow link arrives, and who stops in the middle of it is found out",
          "[net]") {
  log_capture const log;
  pair_of_ends ends;
  ends.limits.silence = 400ms;
  ends.listen();
  raw_socket slow(ends.listener->bound());
  slow.greet(ends.network);
  REQUIRE(ends.until([&] { return ends.accepted.size() == 1; }));
  auto const body = pattern(1'500'000);
  auto const all = encoded(header_of(1), {}, body);
  // In one and the same thread: where the machine is slow, both ends are.
  auto const trickle = [&](std::span<std::byte const> rest) {
    while (!rest.empty()) {
      auto const piece = rest.first(std::min<std::size_t>(rest.size(), 20'000));
      slow.send(piece);
      rest = rest.subspan(piece.size());
      auto const next = net::network::clock::now() + 20ms;
      REQUIRE(ends.until([&] { return net::network::clock::now() >= next; }));
      REQUIRE_FALSE(ends.at_server.is_closed());
    }
  };
  SECTION("to its end") {
    trickle(all);
    REQUIRE(ends.until([&] { return ends.at_server.ended == 1; }));
    CHECK((ends.at_server.frames[0].body == body));
  }
  SECTION("to its middle") {
    trickle(std::span(all).first(700'000));
    REQUIRE(ends.until([&] { return ends.at_server.is_closed(); }));
    CHECK_THAT(ends.at_server.reason(), Contains("nothing was heard for 0.4 s"));
  }
}
