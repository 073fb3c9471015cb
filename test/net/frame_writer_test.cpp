// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/net/impl/frame_writer.hpp>
//
#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/ends.hpp"

using namespace rubato;
using namespace rubato::test;

namespace {

/// Pieces of one array, of which so many may be under way.
class counted_pieces final : public net::body_source {
 public:
  counted_pieces(bytes all, std::size_t piece, std::size_t beside)
      : all_(std::move(all)), piece_(piece), most_(beside) {}
  std::span<std::byte const> next() override {
    beside_ = 0;
    return take();
  }
  std::span<std::byte const> next_beside() override {
    if (beside_ == most_) return {};
    ++beside_;
    return take();
  }

 private:
  std::span<std::byte const> take() {
    auto const one = std::span(all_).subspan(at_).first(std::min(piece_, all_.size() - at_));
    at_ += one.size();
    return one;
  }
  bytes all_;
  std::size_t piece_, most_;
  std::size_t at_ = 0;
  std::size_t beside_ = 0;
};

bytes copy_of(std::span<boost::asio::const_buffer const> given) {
  bytes all;
  for (auto const& b : given) {
    auto const* const at = static_cast<std::byte const*>(b.data());
    all.insert(all.end(), at, at + b.size());
  }
  return all;
}

std::size_t size_of(std::span<boost::asio::const_buffer const> given) { return copy_of(given).size(); }

}  // namespace

TEST_CASE("frame_writer: of a body come as many pieces at a time as its source and its network allow", "[net]") {
  auto const pieces_at_first = [](std::size_t beside, std::size_t pieces) {
    net::frame_writer w;
    w.add({.kind = 1}, {}, 200'000, std::make_unique<counted_pieces>(pattern(200'000), 20'000, beside));
    return w.next(pieces).size() - 1;  // the header comes before
  };
  CHECK(pieces_at_first(0, 16) == 1);
  CHECK(pieces_at_first(3, 16) == 4);
  CHECK(pieces_at_first(3, 1) == 1);
  CHECK(pieces_at_first(100, 16) == 10);
}

TEST_CASE("frame_writer: everything comes once and in order, however much of it goes at a time", "[net]") {
  std::size_t const pieces = GENERATE(as<std::size_t>{}, 1, 4);
  std::size_t const piece = GENERATE(as<std::size_t>{}, 5'000, 20'000);  // gathered, and not
  net::frame_writer w;
  bytes expected, got;
  for (std::size_t i = 0; i < 4; ++i) {
    wire::frame_header h{.kind = 1, .sequence = i, .meta = 3, .length = 100'000};
    bytes head(wire::frame_header_size);
    wire::encode(h, std::span<std::byte, wire::frame_header_size>(head));
    bytes const body = pattern(100'000, i);
    for (auto const part : {std::span<std::byte const>(head), as_bytes("abc"), std::span<std::byte const>(body)})
      expected.insert(expected.end(), part.begin(), part.end());
    w.add(h, as_bytes("abc"), body.size(), std::make_unique<counted_pieces>(body, piece, 100));
  }
  CHECK(w.unsent() == expected.size());
  for (std::size_t most = 1; w.unsent() > 0; most = most * 3 % 70'001) {
    bytes given = copy_of(w.next(pieces));
    given.resize(std::min(given.size(), most));
    got.insert(got.end(), given.begin(), given.end());
    w.written(given.size());
  }
  CHECK(got == expected);
}

TEST_CASE("frame_writer: large pieces are as many at a time as have so many bytes", "[net]") {
  net::frame_writer w;
  bytes const body = pattern(200'000);
  w.add({.kind = 1}, {}, body.size(), std::make_unique<counted_pieces>(body, 20'000, 100));
  CHECK(w.next(8, 50'000).size() == 1 + 3);  // the head, and pieces of which the third goes beyond
}

TEST_CASE("frame_writer: what is held stays where it is, whatever is added meanwhile", "[net]") {
  net::frame_writer w;
  w.add({.kind = 1}, as_bytes("first"), {});
  auto const given = w.next();
  std::vector<boost::asio::const_buffer> const held(given.begin(), given.end());
  w.hold();
  bytes const before = copy_of(held);
  for (int i = 0; i < 10; ++i) w.add({.kind = 1}, pattern(60'000), {});  // more than a gathering has room for
  CHECK(copy_of(held) == before);
  CHECK(w.unsent() == before.size() + 10 * (wire::frame_header_size + 60'000));
  w.written(size_of(held) - 1);  // it goes bit by bit
  w.written(1);
  CHECK(size_of(w.next()) > 64 * 1024);  // what is added is gathered
}

namespace {

wire::frame_header newest(std::uint64_t sequence) { return {.kind = 4, .sequence = sequence}; }

/// Takes all that is left, of bodies a piece at a time.
bytes rest_of(net::frame_writer& w) {
  bytes all;
  while (w.unsent() > 0) {
    bytes const given = copy_of(w.next());
    all.insert(all.end(), given.begin(), given.end());
    w.written(given.size());
  }
  return all;
}

}  // namespace

TEST_CASE("frame_writer: of frames in a row of which the newest counts one waits, and none overtakes another", "[net]") {
  net::frame_writer w;
  bytes const body = pattern(100'000);
  w.add({.kind = 1}, {}, body);
  for (std::uint64_t i = 1; i < 5; ++i) w.add_newest(newest(i));
  w.add({.kind = 2}, as_bytes("behind"), {});
  for (std::uint64_t i = 5; i < 7; ++i) w.add_newest(newest(i));
  w.add({.kind = 3}, {}, body);
  for (std::uint64_t i = 7; i < 10; ++i) w.add_newest(newest(i));
  bytes const expected = joined({encoded({.kind = 1}, {}, body), encoded(newest(4), {}, {}),
                                 encoded({.kind = 2}, as_bytes("behind"), {}), encoded(newest(6), {}, {}),
                                 encoded({.kind = 3}, {}, body), encoded(newest(9), {}, {})});
  CHECK(w.unsent() == expected.size());
  CHECK(rest_of(w) == expected);
  w.add_newest(newest(10));
  CHECK(rest_of(w) == encoded(newest(10), {}, {}));
}

TEST_CASE("frame_writer: a frame of which a part has gone stays as it was, and the next newest follows", "[net]") {
  std::size_t const gone = GENERATE(as<std::size_t>{}, 1, wire::frame_header_size);
  net::frame_writer w;
  w.add({.kind = 1}, {}, {});
  w.add_newest(newest(1));
  bytes begun = copy_of(w.next());
  begun.resize(wire::frame_header_size + gone);
  w.written(begun.size());
  w.add_newest(newest(2));
  w.add_newest(newest(3));
  CHECK(joined({begun, rest_of(w)}) ==
        joined({encoded({.kind = 1}, {}, {}), encoded(newest(1), {}, {}), encoded(newest(3), {}, {})}));
  w.add_newest(newest(4));
  w.clear();
  w.add_newest(newest(5));
  CHECK(rest_of(w) == encoded(newest(5), {}, {}));
}

TEST_CASE("frame_writer: a newer frame takes no place of the last one while that is held", "[net]") {
  net::frame_writer w;
  w.add_newest(newest(1));
  auto const given = w.next();
  std::vector<boost::asio::const_buffer> const held(given.begin(), given.end());
  w.hold();
  bytes const before = copy_of(held);
  w.add_newest(newest(2));
  CHECK(copy_of(held) == before);
  w.written(before.size());
  CHECK(rest_of(w) == encoded(newest(2), {}, {}));
}

TEST_CASE("frame_writer: a newer frame takes no place of what is held, but of what waits behind it", "[net]") {
  net::frame_writer w;
  bytes const body = pattern(100'000);
  w.add_newest(newest(1));
  w.add({.kind = 1}, {}, body.size(), std::make_unique<counted_pieces>(body, 20'000, 0));
  auto const given = w.next();
  std::vector<boost::asio::const_buffer> const held(given.begin(), given.end());
  w.hold();
  bytes const before = copy_of(held);
  w.add_newest(newest(2));
  w.add_newest(newest(3));
  CHECK(copy_of(held) == before);
  w.written(before.size());
  (void)w.next();  // more of the body
  w.hold();
  w.add_newest(newest(4));
  bytes const rest = rest_of(w);
  CHECK(joined({before, rest}) ==
        joined({encoded(newest(1), {}, {}), encoded({.kind = 1}, {}, body), encoded(newest(4), {}, {})}));
}
