// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/processes/arriving_control.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <rubato/wire/control.hpp>
#include <rubato/wire/frame.hpp>

using namespace rubato;
using detail::arriving_control;

namespace {
wire::frame_header of_length(std::uint64_t bytes) {
  wire::frame_header h;
  h.length = bytes;
  return h;
}
}  // namespace

TEST_CASE("arriving_control: there is room for about as much as has come, and in the end for all", "[tcp]") {
  std::vector<std::byte> said(arriving_control::of_member_max);
  for (std::size_t i = 0; i < said.size(); ++i) said[i] = static_cast<std::byte>(i * 31 >> 4);
  arriving_control arriving;
  std::vector<std::span<std::byte>> body;
  arriving.begin(of_length(said.size()), {}, arriving_control::of_member_max, body);
  CHECK(arriving.bytes().size() <= 4096);
  std::size_t come = 0;
  while (true) {
    REQUIRE(body.size() == 1);
    std::ranges::copy(std::span(said).subspan(come, body.front().size()), body.front().begin());
    come += body.front().size();
    if (come == said.size()) break;
    body.clear();
    arriving.more(body);
    CHECK(arriving.bytes().size() <= 2 * come);
  }
  CHECK(std::ranges::equal(arriving.bytes(), said));
}

TEST_CASE("arriving_control: a short one has room at once, and what was before it is void", "[tcp]") {
  arriving_control arriving;
  std::vector<std::span<std::byte>> body;
  arriving.begin(of_length(1000000), {}, arriving_control::of_guest_max, body);
  body.clear();
  arriving.begin(of_length(7), {}, arriving_control::of_guest_max, body);
  CHECK(body.size() == 1);
  CHECK(body.front().size() == 7);
  CHECK(arriving.bytes().size() == 7);
}

TEST_CASE("arriving_control: what is longer than it may be is refused, and who says it is told before", "[tcp]") {
  arriving_control arriving;
  std::vector<std::span<std::byte>> body;
  CHECK_NOTHROW(arriving.begin(of_length(100), {}, 100, body));
  CHECK_THROWS_WITH(arriving.begin(of_length(101), {}, 100, body),
                    "a control message of 101 bytes, expected at most 100");
  std::byte const meta{};
  CHECK_THROWS_AS(arriving.begin(of_length(1), std::span(&meta, 1), 100, body), wire::frame_error);

  wire::control_message const longer = wire::farewell{std::string(100, 'x')};
  std::uint64_t const bytes = wire::encode(longer).size();
  CHECK(detail::encode_at_most(longer, bytes) == wire::encode(longer));
  CHECK_THROWS_AS(detail::encode_at_most(longer, bytes - 1), option_error);
}
