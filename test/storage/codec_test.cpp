// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/codec.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/lag.hpp>
#include <rubato/protocol/vap.hpp>
#include <rubato/server/agreement.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/coding.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/int8_blocks.hpp>
#include <rubato/storage/sparse.hpp>

using namespace rubato;

namespace {

using floats = std::vector<float>;
using byte_list = std::vector<std::uint8_t>;

float of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

template <codec C>
byte_list encoded(C const& c, floats const& values) {
  byte_list out(c.bytes(values.size()));
  c.encode(values, std::as_writable_bytes(std::span(out)));
  return out;
}
template <codec C>
floats decoded(C const& c, byte_list const& bytes, std::size_t n) {
  floats out(n);
  c.decode(std::as_bytes(std::span(bytes)), out);
  return out;
}
template <codec C>
floats rounded(C const& c, floats const& values) {
  return decoded(c, encoded(c, values), values.size());
}

bool same_bits(floats const& a, floats const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Of any bits, or of some magnitude.
floats some_floats(random_stream& random, std::size_t n) {
  floats all(n);
  bool const of_any_bits = random.chance(0.3);
  int const around = static_cast<int>(random.below(250)) - 130;
  for (float& x : all)
    x = of_any_bits ? of_bits(static_cast<std::uint32_t>(random.below(std::uint64_t{1} << 32)))
                    : std::ldexp(static_cast<float>(random.uniform() * 4 - 2), around);
  return all;
}

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

/// Two bytes of fixed point.
struct fixed {
  float step = 0x1p-10F;
  [[nodiscard]] static std::size_t bytes(std::size_t n) noexcept { return 2 * n; }
  void encode(std::span<float const> values, std::span<std::byte> to) const noexcept {
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto const whole = static_cast<std::int16_t>(std::lround(std::clamp(values[i] / step, -32000.0F, 32000.0F)));
      std::memcpy(to.data() + 2 * i, &whole, 2);
    }
  }
  void decode(std::span<std::byte const> from, std::span<float> to) const noexcept {
    for (std::size_t i = 0; i < to.size(); ++i) {
      std::int16_t whole = 0;
      std::memcpy(&whole, from.data() + 2 * i, 2);
      to[i] = static_cast<float>(whole) * step;
    }
  }
};
static_assert(codec<fixed>);
// What is not meant as a codec chooses no function that takes one.
static_assert(!std::is_convertible_v<int, codec_rule> && !std::is_convertible_v<char const*, codec_rule>);
struct in_nothing : fixed {
  [[nodiscard]] static std::size_t bytes(std::size_t) noexcept { return 0; }
};
struct named : fixed {
  [[nodiscard]] static std::uint64_t fingerprint() noexcept { return 42; }
};

template <class Table>
blueprint plan_of(Table const& table, rules protocol = bsp{}) {
  return {std::move(protocol), 1, {describe(table)}};
}

}  // namespace

TEST_CASE("bfloat16: the nearest of 8 significant bits, ties to even") {
  auto const one = [](float x) { return std::bit_cast<std::uint32_t>(rounded(bfloat16{}, {x}).front()); };
  CHECK(bfloat16::bytes(0) == 0);
  CHECK(bfloat16::bytes(3) == 6);
  CHECK(encoded(bfloat16{}, {1.0F, -2.0F}) == byte_list{0x80, 0x3F, 0x00, 0xC0});
  CHECK(one(of_bits(0x3F80'7FFF)) == 0x3F80'0000);
  CHECK(one(of_bits(0x3F80'8000)) == 0x3F80'0000);  // a tie: to the even one below
  CHECK(one(of_bits(0x3F80'8001)) == 0x3F81'0000);
  CHECK(one(of_bits(0x3F81'8000)) == 0x3F82'0000);  // and above
  CHECK(one(of_bits(0xBF81'8000)) == 0xBF82'0000);
  CHECK(one(0.0F) == 0);
  CHECK(one(-0.0F) == 0x8000'0000);
  CHECK(one(of_bits(0x0000'8001)) == 0x0001'0000);  // subnormal
  CHECK(one(of_bits(0x0000'8000)) == 0);
  CHECK(one(of_bits(0x7F7F'7FFF)) == 0x7F7F'0000);  // the greatest that there is
  for (std::uint32_t const bits : {0x7F7F'8000U, 0x7F7F'FFFFU}) {  // what is finite stays so
    CHECK(one(of_bits(bits)) == 0x7F7F'0000);
    CHECK(one(of_bits(bits | 0x8000'0000)) == 0xFF7F'0000);
  }
  CHECK(rounded(bfloat16{}, {infinity, -infinity}) == floats{infinity, -infinity});
  for (std::uint32_t const bits : {0x7F80'0001U, 0x7FFF'FFFFU, 0xFF80'0001U, 0xFFFF'FFFFU, 0x7FC0'0000U})
    CHECK(std::isnan(of_bits(one(of_bits(bits)))));
}

TEST_CASE("int8_blocks: a power of two for 32 values, and multiples of its 64th") {
  int8_blocks const c;
  CHECK(c.bytes(0) == 0);
  CHECK(c.bytes(1) == 2);
  CHECK(c.bytes(32) == 33);
  CHECK(c.bytes(33) == 35);
  CHECK(encoded(c, {1.0F, -0.5F, 0.015625F, 0.0F}) == byte_list{127, 64, 0xE0, 1, 0});
  CHECK(encoded(c, {1.5F, 0.0078125F, 0.0234375F}) == byte_list{127, 96, 0, 2});  // ties to even
  CHECK(rounded(c, {1.999F, -1.999F}) == floats{127.0F / 64, -127.0F / 64});      // not to the next power
  CHECK(rounded(c, floats(40, 3.0F)) == floats(40, 3.0F));
  CHECK(rounded(c, {0.0F, 0.0F}) == floats{0.0F, 0.0F});
  floats two_blocks(33, 1.0F);
  two_blocks[32] = 1000.0F;
  two_blocks[1] = 0.25F;
  CHECK(rounded(c, two_blocks)[1] == 0.25F);
  CHECK(rounded(c, {1000.0F, 0.25F})[1] == 0.0F);
  // at the edges of what there is
  CHECK(rounded(c, {0x1p-126F, 0x1p-132F}) == floats{0x1p-126F, 0x1p-132F});
  CHECK(rounded(c, {0x1p-133F, 0x1p-134F}) == floats{0x1p-133F, 0.0F});
  CHECK(rounded(c, {0x1p-149F}) == floats{0.0F});
  CHECK(rounded(c, {0x1p127F, std::numeric_limits<float>::lowest()}) == floats{0x1p127F, -0x1.FCp127F});
  for (float const bad : {infinity, -infinity, no_number}) {
    floats block(40, 1.0F);
    block[7] = bad;
    auto const got = rounded(c, block);
    CHECK(std::all_of(got.begin(), got.begin() + 32, [](float x) { return std::isnan(x); }));
    CHECK(floats(got.begin() + 32, got.end()) == floats(8, 1.0F));
  }
  CHECK(decoded(c, {254, 0x80}, 1) == floats{-0x1.FCp127F});  // which nobody writes
}

TEMPLATE_TEST_CASE("codecs: what is rounded once is rounded no more, and errors are within bounds", "", bfloat16,
                   int8_blocks) {
  TestType const c;
  random_stream random(7, 1);
  for (int i = 0; i < 2000; ++i) {
    floats const values = some_floats(random, 1 + static_cast<std::size_t>(random.below(100)));
    floats const once = rounded(c, values);
    REQUIRE(same_bits(rounded(c, once), once));
    for (std::size_t k = 0; k < values.size(); ++k) {
      float greatest = 0;
      for (std::size_t j = k / 32 * 32; j < std::min(values.size(), k / 32 * 32 + 32); ++j)
        greatest = std::max(greatest, std::abs(values[j]));
      if (!std::isfinite(once[k])) continue;
      float const bound = std::is_same_v<TestType, bfloat16> ? std::max(std::abs(values[k]) / 256, 0x1p-134F)
                                                             : std::max(greatest / 64, 0x1p-134F);
      REQUIRE(std::abs(once[k] - values[k]) <= bound);
    }
  }
}

TEST_CASE("coding: values are coded in pieces of whole rows, and doubles as floats") {
  SECTION("floats") {
    coding const c(int8_blocks{}, element_type::float32, 12);
    std::size_t const piece = 65536 / 12 * 12;
    CHECK(c.piece_bytes() == piece);
    CHECK(c.coded_piece() == int8_blocks::bytes(piece / 4));
    CHECK(c.bytes(0) == 0);
    CHECK(c.bytes(2 * piece + 12) == 2 * c.coded_piece() + int8_blocks::bytes(3));
    floats values(piece / 4 + 3, 0.001F);
    values[piece / 4 - 1] = 1.0F;  // the last of its piece: shares no scale with what follows
    std::vector<std::byte> coded(c.bytes(values.size() * 4));
    c.encode(std::as_bytes(std::span(values)), coded);
    floats got(values.size());
    c.decode(coded, std::as_writable_bytes(std::span(got)));
    CHECK(got[piece / 4 - 2] == 0.0F);
    CHECK(got[piece / 4] == Approx(0.001F).epsilon(0.01));
    c.round(std::as_writable_bytes(std::span(values)));
    CHECK(got == values);
  }
  SECTION("doubles") {
    coding const c(bfloat16{}, element_type::float64, 8);
    CHECK(c.bytes(80) == 20);
    std::vector<double> values{1.0 / 3, 1e300, -1e-300, 2.0};
    c.round(std::as_writable_bytes(std::span(values)));
    CHECK(values[0] == 0x1.56p-2);
    CHECK(values[1] == 0x1.FEp127);  // what is finite stays so
    CHECK(values[2] == 0);
    CHECK(values[3] == 2);
  }
  CHECK_FALSE(coding{});
  CHECK(coding{}.bytes(7) == 7);
}

TEST_CASE("codec_rule: a value that may be copied, moved and given up, and none may be a constant") {
  static constexpr dense<float> constant{.rows = 3};
  CHECK_FALSE(constant.codec.updates);
  codec_rule a = named{};
  codec_rule b = a;
  codec_rule const c = std::move(a);
  CHECK(c.bytes(3) == 6);
  CHECK(b.fingerprint() == 42);
  b = int8_blocks{};
  CHECK(b.type() == typeid(int8_blocks));
  CHECK_FALSE(b.fingerprint());
  b = c;
  CHECK(b.type() == typeid(named));
  b = codec_rule{};
  CHECK_FALSE(b);
  codec_rule d = named{}, e = int8_blocks{};
  d = std::move(e);
  CHECK(d.type() == typeid(int8_blocks));
  CHECK(e.type() == typeid(named));  // NOLINT: whatever it is, it is all of one
  CHECK(e.fingerprint() == 42);
  CHECK(e.bytes(3) == 6);
}

TEST_CASE("table_codec: a table names its codecs, and what cannot be is refused") {
  CHECK_FALSE(plan_of(dense<float>{.rows = 2}).table(0).updates());
  auto const both = plan_of(sparse<double>{.codec = {.updates = bfloat16{}, .answers = int8_blocks{}}});
  CHECK(both.table(0).updates().codec().type() == typeid(bfloat16));
  CHECK(both.table(0).answers().codec().type() == typeid(int8_blocks));
  CHECK_THROWS_WITH((plan_of(dense<std::int32_t, sum>{.rows = 2, .codec = {.updates = bfloat16{}}})),
                    "table 0: its codec bfloat16 writes float and double, and the table is of int32");
  CHECK_THROWS_WITH(plan_of(dense<float>{.rows = 2, .codec = {.answers = in_nothing{}}}),
                    Catch::Contains("in_nothing writes values in no bytes, expected 1 or more"));
  CHECK_THROWS_WITH(plan_of(dense<float>{.rows = 2, .codec = {.updates = bfloat16{}}}, lag{}),
                    Catch::Contains("leave .codec.updates out"));
  CHECK_THROWS_WITH(plan_of(dense<float>{.rows = 2, .codec = {.updates = bfloat16{}}}, vap{}),
                    Catch::Contains("which this admission does not count: leave .codec.updates out"));
}

TEST_CASE("table_codec: processes agree on what codecs write, not on where they come from") {
  auto const says = [](table_codec const& c) { return plan_of(dense<float>{.rows = 2, .codec = c}).agreement(); };
  CHECK(says({}) == says({.updates = {}, .answers = {}}));
  CHECK(says({.updates = bfloat16{}}) == says({.updates = bfloat16{}}));
  CHECK(says({.updates = bfloat16{}}).find("updates of table 0: bfloat16 (") != std::string::npos);
  CHECK(says({.answers = int8_blocks{}}).find("answers of table 0: int8_blocks (") != std::string::npos);
  CHECK(says({.updates = bfloat16{}}) != says({}));
  CHECK(says({.updates = bfloat16{}}) != says({.updates = int8_blocks{}}));
  CHECK(fingerprint(codec_rule(fixed{})) != fingerprint(codec_rule(fixed{.step = 0x1p-9F})));
  CHECK(fingerprint(codec_rule(fixed{})) == fingerprint(codec_rule(fixed{})));
  CHECK(fingerprint(codec_rule(named{})) == 42);
}
