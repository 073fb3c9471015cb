// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "rubato/storage/codec.hpp"

namespace rubato {

/// 33 bytes for 32 values, which share a power of two: MXINT8 of the OCP Microscaling Formats (MX) Specification v1.0,
/// 2023. Beside a value much greater than it a small one is rounded to zero; error feedback sends it
/// later, where it is of an update.
///
/// With X the power of two at or below the greatest magnitude of the block, and 2^-127 at least, values are multiples
/// of X/64 up to 127 X/64. Rounds to the nearest, ties to even: by at most X/128, and by X/64 above 127 X/64. That X is
/// a power of two keeps what is rounded once (the greatest stays in [X, 2X)). A block with a value that is infinite or
/// not a number comes back as values that are not numbers.
/// Answers to reads by key are blocks within a row, of one value where rows have one. Cost: O(1) per value.
struct int8_blocks {
  static constexpr std::size_t block = 32;  ///< values with one scale; the last block may have fewer

  /// What n values take.
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t n) noexcept { return n + (n + block - 1) / block; }

  /// Writes values. @pre `to` has `bytes(values.size())`
  static void encode(std::span<float const> values, std::span<std::byte> to) noexcept {
    for (; !values.empty(); values = values.subspan(std::min(block, values.size()))) {
      auto const some = values.first(std::min(block, values.size()));
      encode_block(some, to.data());
      to = to.subspan(some.size() + 1);
    }
  }

  /// Reads them back. @pre `from` has `bytes(to.size())`
  static void decode(std::span<std::byte const> from, std::span<float> to) noexcept {
    for (; !to.empty(); to = to.subspan(std::min(block, to.size()))) {
      auto const some = to.first(std::min(block, to.size()));
      decode_block(from.data(), some);
      from = from.subspan(some.size() + 1);
    }
  }

 private:
  static constexpr int bias = 127, fraction = 6;  // of scales as they are written; of values, in bits
  static constexpr std::byte no_numbers{255};     // such a scale

  /// The nearest one, ties to even. @pre its magnitude is small
  static double whole_number(double x) noexcept {
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__)  // what follows would be x
    return std::nearbyint(x);
#else
    constexpr double no_bits_below_1 = 6755399441055744.0;  // 1.5 · 2^52
    return (x + no_bits_below_1) - no_bits_below_1;
#endif
  }

  static void encode_block(std::span<float const> values, std::byte* to) noexcept {
    std::uint32_t greatest = 0;  // magnitudes are in the order of their bits, and what is not finite is the greatest
    for (float const x : values) greatest = std::max(greatest, std::bit_cast<std::uint32_t>(x) & 0x7FFF'FFFFU);
    std::uint32_t const scale = greatest >> 23U;
    *to++ = static_cast<std::byte>(scale);
    if (scale == 255) return void(std::fill_n(to, values.size(), std::byte{}));
    double const factor = std::ldexp(1.0, fraction + bias - static_cast<int>(scale));
    for (float const x : values) {
      double const nearest = whole_number(double{x} * factor);
      *to++ = static_cast<std::byte>(static_cast<std::int8_t>(std::clamp(nearest, -127.0, 127.0)));
    }
  }

  static void decode_block(std::byte const* from, std::span<float> values) noexcept {
    std::byte const scale = *from++;
    if (scale == no_numbers) return void(std::ranges::fill(values, std::numeric_limits<float>::quiet_NaN()));
    double const factor = std::ldexp(1.0, std::to_integer<int>(scale) - bias - fraction);
    for (float& x : values) {
      auto const whole = static_cast<std::int8_t>(std::to_integer<std::uint8_t>(*from++));
      x = static_cast<float>(std::max<int>(whole, -127) * factor);  // nobody writes -128, which could be too great
    }
  }
};
static_assert(codec<int8_blocks>);

}  // namespace rubato
