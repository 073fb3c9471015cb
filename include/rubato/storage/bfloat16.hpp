// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "rubato/storage/codec.hpp"

namespace rubato {

/// 2 bytes for a value: the upper half of a float, so its range and 8 significant bits. Rounds to the nearest, ties to
/// even: by at most 1/256 of the value; what is finite stays so, at the greatest that there is. What is not a number stays
/// none, infinities stay. Cost: O(1) per value.
struct bfloat16 {
  /// What n values take.
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t n) noexcept { return 2 * n; }

  /// Writes values. @pre `to` has `bytes(values.size())`
  static void encode(std::span<float const> values, std::span<std::byte> to) noexcept {
    std::byte* out = to.data();
    for (float const x : values) {
      std::uint16_t const half = upper_half(std::bit_cast<std::uint32_t>(x));
      std::memcpy(out, &half, sizeof half);
      out += sizeof half;
    }
  }

  /// Reads them back. @pre `from` has `bytes(to.size())`
  static void decode(std::span<std::byte const> from, std::span<float> to) noexcept {
    std::byte const* in = from.data();
    for (float& x : to) {
      std::uint16_t half = 0;
      std::memcpy(&half, in, sizeof half);
      in += sizeof half;
      x = std::bit_cast<float>(std::uint32_t{half} << 16U);
    }
  }

 private:
  [[nodiscard]] static constexpr std::uint16_t upper_half(std::uint32_t bits) noexcept {
    constexpr std::uint32_t infinity = 0x7F80'0000, sign = 0x8000'0000, quiet = 0x40, greatest = 0x7F7F'0000;
    std::uint32_t const magnitude = bits & ~sign;
    std::uint32_t const nearest = (bits + 0x7FFF + ((bits >> 16U) & 1U)) >> 16U;
    // Rounding could make infinity of what is finite, or not a number.
    if (magnitude > greatest && magnitude != infinity)
      return static_cast<std::uint16_t>(magnitude < infinity ? ((bits & sign) | greatest) >> 16U : (bits >> 16U) | quiet);
    return static_cast<std::uint16_t>(nearest);
  }
};
static_assert(codec<bfloat16>);

}  // namespace rubato
