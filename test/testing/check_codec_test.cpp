// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/testing/check_codec.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/int8_blocks.hpp>

using namespace rubato;
using testing::check_codec;

namespace {

struct in_no_bytes : bfloat16 {
  static std::size_t bytes(std::size_t) noexcept { return 0; }
};

/// Scales by the greatest magnitude, which is none the next time.
struct by_tenths {
  static std::size_t bytes(std::size_t n) noexcept { return n; }
  static void encode(std::span<float const> values, std::span<std::byte> to) noexcept {
    for (std::size_t i = 0; i < values.size(); ++i)
      to[i] = static_cast<std::byte>(std::isfinite(values[i]) && std::abs(values[i]) < 10
                                         ? static_cast<int>(values[i] * 10) & 127
                                         : 0);
  }
  static void decode(std::span<std::byte const> from, std::span<float> to) noexcept {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = 0.07F * static_cast<float>(from[i]);
  }
};

struct one_too_far : bfloat16 {
  static void encode(std::span<float const> values, std::span<std::byte> to) noexcept {
    bfloat16::encode(values, to);
    *(to.data() + to.size()) = std::byte{1};
  }
};

struct never_the_same : bfloat16 {
  void encode(std::span<float const> values, std::span<std::byte> to) const noexcept {
    bfloat16::encode(values, to);
    to[0] ^= static_cast<std::byte>(++*calls % 2);
  }
  std::shared_ptr<int> calls = std::make_shared<int>(0);
};

struct never_zero : bfloat16 {
  static void decode(std::span<std::byte const> from, std::span<float> to) noexcept {
    bfloat16::decode(from, to);
    for (float& x : to) x = x == 0 ? 1 : x;
  }
};

template <class C>
bool finds(C const& c, char const* what) {
  for (auto const& sentence : check_codec(c))
    if (sentence.find(what) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("check_codec: the library's codecs conform, and what does not is found") {
  CHECK(check_codec(bfloat16{}).empty());
  CHECK(check_codec(int8_blocks{}).empty());
  CHECK(finds(in_no_bytes{}, "take 0 bytes, expected 1 or more"));
  CHECK(finds(by_tenths{}, "expected the same bits"));
  CHECK(finds(one_too_far{}, "encode writes beyond"));
  CHECK(finds(never_the_same{}, "something else when it is asked twice"));
  CHECK(finds(never_zero{}, "zeros come back as something else"));
}
