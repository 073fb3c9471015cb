// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A frame's header as bytes.
#include <array>
#include <catch2/catch.hpp>
#include <rubato/wire/frame.hpp>

using namespace rubato;
using Catch::Contains;
using header_bytes = std::array<std::byte, wire::frame_header_size>;

namespace {

wire::frame_header example() {
  wire::frame_header h;
  h.kind = 7;
  h.table = 0x0201;
  h.sender = 0x06050403;
  h.incarnation = 0x0A090807;
  h.sequence = 0x1211100F0E0D0C0B;
  h.meta = 0x16151413;
  h.length = 0x1E1D1C1B1A191817;
  return h;
}

header_bytes encoded(wire::frame_header const& h) {
  header_bytes out;
  wire::encode(h, out);
  return out;
}

}  // namespace

TEST_CASE("a header is laid out as documented", "[wire]") {
  auto const out = encoded(example());
  std::array<unsigned, 40> const expected{'R', 'B', 'T', 'O', wire::frame_version, 7,
                                          1, 2,                             // table
                                          3, 4, 5, 6,                       // sender
                                          7, 8, 9, 10,                      // incarnation
                                          11, 12, 13, 14, 15, 16, 17, 18,   // sequence
                                          19, 20, 21, 22,                   // meta
                                          0, 0, 0, 0,
                                          23, 24, 25, 26, 27, 28, 29, 30};  // length
  for (std::size_t i = 0; i < out.size(); ++i) {
    CAPTURE(i);
    CHECK(std::to_integer<unsigned>(out[i]) == expected[i]);
  }
}

TEST_CASE("a header comes back as it was", "[wire]") {
  CHECK(wire::decode(encoded(example())) == example());
  CHECK(wire::decode(encoded({})) == wire::frame_header{});
}

TEST_CASE("what is no header is refused, with what was expected", "[wire]") {
  auto out = encoded(example());
  SECTION("magic") {
    out[3] = std::byte{0};
    CHECK_THROWS_WITH(wire::decode(out), Contains("magic"));
  }
  SECTION("version") {
    out[4] = std::byte{1};
    CHECK_THROWS_WITH(wire::decode(out), Contains("version 1, expected " + std::to_string(wire::frame_version)));
  }
  SECTION("reserved") {
    out[31] = std::byte{1};
    CHECK_THROWS_WITH(wire::decode(out), Contains("reserved"));
  }
  CHECK_THROWS_AS(wire::decode(out), wire::frame_error);
}
