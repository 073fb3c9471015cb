// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// How much is read at a time: what is not copied, and what comes in one go.
#include <rubato/net/impl/frame_reader.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/buffer.hpp>

#include <rubato/net/connection.hpp>
#include <rubato/wire/frame.hpp>

using namespace rubato;

namespace {

using some_bytes = std::vector<std::byte>;

/// Has a place for each body, and keeps them.
class kept_bodies final : public net::frame_receiver {
 public:
  std::vector<some_bytes> bodies;

  void begin(wire::frame_header const& header, std::span<std::byte const>,
             std::vector<std::span<std::byte>>& body) override {
    bodies.emplace_back(header.length);
    if (header.length != 0) body.emplace_back(bodies.back());
  }
  void end(wire::frame_header const&) override {}
  void drained() override {}
  void garbled(std::string const&) override { FAIL(); }
  void closed(std::string const&) override { FAIL(); }
};

void append_frame(some_bytes& to, some_bytes const& body, std::size_t meta = 0) {
  wire::frame_header h;
  h.kind = wire::first_user_kind;
  h.meta = static_cast<decltype(h.meta)>(meta);
  h.length = body.size();
  std::array<std::byte, wire::frame_header_size> head;
  wire::encode(h, head);
  to.insert(to.end(), head.begin(), head.end());
  to.resize(to.size() + meta, std::byte{1});
  to.insert(to.end(), body.begin(), body.end());
}

/// A line on which all is there: each read gets as much as it has room for, and at most `at_once`. Returns how much
/// each took.
std::vector<std::size_t> read_all(net::frame_reader& reader, net::frame_receiver& owner, some_bytes const& sent,
                                  std::size_t at_once = std::numeric_limits<std::size_t>::max()) {
  std::vector<std::size_t> reads;
  net::frame_receiver* const to = &owner;
  for (std::size_t at = 0; at < sent.size();) {
    std::size_t taken = 0;
    for (auto const& room : reader.room()) {
      std::size_t const some = std::min({room.size(), sent.size() - at - taken, at_once - taken});
      std::memcpy(room.data(), sent.data() + at + taken, some);
      taken += some;
    }
    reader.arrived(taken, to);
    reads.push_back(taken);
    at += taken;
  }
  return reads;
}

}  // namespace

TEST_CASE("a large body that follows a large one is read to where it belongs", "[net]") {
  net::frame_reader reader(4096);
  kept_bodies owner;
  some_bytes const large(1'000'000, std::byte{7});
  some_bytes sent;
  for (int i = 0; i < 3; ++i) append_frame(sent, large);
  auto const reads = read_all(reader, owner, sent);
  CHECK(owner.bodies == std::vector<some_bytes>(3, large));
  REQUIRE(reads.size() == 6);  // a head and a body, three times
  CHECK(reads[0] > 100'000);   // it might be of small ones
  CHECK(reads[2] <= 512);
  CHECK(reads[4] <= 512);
}

TEST_CASE("small frames that follow a large one are read together again", "[net]") {
  net::frame_reader reader(4096);
  kept_bodies owner;
  some_bytes const small(1000, std::byte{3});
  some_bytes sent;
  append_frame(sent, some_bytes(1'000'000, std::byte{7}));
  for (int i = 0; i < 20; ++i) append_frame(sent, small);
  auto const reads = read_all(reader, owner, sent);
  REQUIRE(owner.bodies.size() == 21);
  CHECK(owner.bodies.back() == small);
  REQUIRE(reads.size() == 4);
  CHECK(reads[2] <= 512);
  CHECK(reads[3] > 19'000);
}

TEST_CASE("a large body is read to where it belongs after short frames that came alone, too", "[net]") {
  net::frame_reader reader(4096);
  kept_bodies owner;
  some_bytes const large(1'000'000, std::byte{7});
  some_bytes large_frame, short_frame;
  append_frame(large_frame, large);
  append_frame(short_frame, some_bytes(100, std::byte{3}));
  (void)read_all(reader, owner, large_frame);
  for (int i = 0; i < 3; ++i) (void)read_all(reader, owner, short_frame);
  auto const reads = read_all(reader, owner, large_frame);
  CHECK(owner.bodies.size() == 5);
  CHECK(owner.bodies.back() == large);
  CHECK(reads[0] <= 512);
}

TEST_CASE("the end of a large body that comes bit by bit is not read as heads are", "[net]") {
  constexpr std::size_t record = 16 * 1024;  // of TLS
  net::frame_reader reader(4096);
  kept_bodies owner;
  some_bytes const large(1'000'000, std::byte{7});
  some_bytes sent;
  append_frame(sent, large);
  for (int i = 0; i < 3; ++i) {
    auto const reads = read_all(reader, owner, sent, record);
    CHECK(reads.size() <= sent.size() / record + 3);
  }
  CHECK(owner.bodies == std::vector<some_bytes>(3, large));
}

TEST_CASE("what fits into the read buffer is read together", "[net]") {
  net::frame_reader reader(4096);
  kept_bodies owner;
  some_bytes const body(100'000, std::byte{5});
  some_bytes sent;
  for (int i = 0; i < 5; ++i) append_frame(sent, body);
  auto const reads = read_all(reader, owner, sent);
  CHECK(owner.bodies == std::vector<some_bytes>(5, body));
  CHECK(reads.size() <= 5);
}

TEST_CASE("a head that is longer than usual comes whole after a large body, too", "[net]") {
  net::frame_reader reader(4096);
  kept_bodies owner;
  some_bytes const large(1'000'000, std::byte{7});
  some_bytes sent;
  for (int i = 0; i < 2; ++i) append_frame(sent, large, 4000);
  (void)read_all(reader, owner, sent);
  CHECK(owner.bodies == std::vector<some_bytes>(2, large));
}
