// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

/// @file
/// A logarithm and an exponential that give the same bits under every compiler and C library.
///
/// `std::log` may differ in the last bit between libraries, and one bit is enough to reorder two
/// events of a simulation. These two use nothing but + - * / and bit operations, which IEEE 754
/// rounds in one way only, provided that the compiler does not fuse a multiplication and an
/// addition: compile with `-ffp-contract=off` and without `-ffast-math`.

namespace rubato::detail {

static_assert(std::numeric_limits<double>::is_iec559, "rubato needs IEEE 754 doubles");

// ln 2 as the sum of two doubles. The last 20 bits of the first are zero, so that its product with
// an exponent (at most 11 bits) is exact.
inline constexpr double ln2_high = 0x1.62e42fefp-1;
inline constexpr double ln2_low = 0x1.473de6af278edp-34;

/// 2^exponent for a normal result: -1022 <= exponent <= 1023.
[[nodiscard]] constexpr double power_of_two(int exponent) noexcept {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// The natural logarithm of `x`, with a relative error under 1e-15 (measured: 3.3e-16).
/// As `std::log`: -inf at 0, NaN below 0 and at NaN, inf at inf. Sets no errno, raises nothing.
[[nodiscard]] constexpr double portable_log(double x) noexcept {
  using limits = std::numeric_limits<double>;
  if (x != x || x == limits::infinity()) return x;
  if (x < 0) return limits::quiet_NaN();
  if (x == 0) return -limits::infinity();

  int exponent = 0;
  if (x < limits::min()) {  // subnormal: make it normal first
    x *= 0x1p54;
    exponent = -54;
  }
  // x = m 2^exponent with m in [sqrt(1/2), sqrt(2)): there is then no cancellation between the
  // exponent's part and the rest, and log(1) is exactly 0.
  constexpr std::uint64_t sqrt_half_bits = 0x3fe6a09e667f3bcdu;
  std::uint64_t const offset = std::bit_cast<std::uint64_t>(x) - sqrt_half_bits;
  int const shift = static_cast<int>(static_cast<std::int64_t>(offset) >> 52);
  exponent += shift;
  double const m =
      std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) -
                            (static_cast<std::uint64_t>(static_cast<std::int64_t>(shift)) << 52));

  // log(m) = 2 atanh(s) = 2 s (1 + s^2/3 + s^4/5 + ...), s = (m - 1) / (m + 1), s^2 < 0.0295.
  double const f = m - 1.0;
  double const s = f / (2.0 + f);
  double const s2 = s * s;
  double tail = 1.0 / 23;
  for (int odd = 21; odd >= 3; odd -= 2) tail = tail * s2 + 1.0 / odd;
  double const correction = s * s2 * tail;
  double const k = exponent;
  return k * ln2_high + (2.0 * s + (2.0 * correction + k * ln2_low));
}

/// e to the power `x`, with a relative error under 1e-15 over the normal range (measured: 1.9e-16);
/// subnormal results are rounded once more.
/// As `std::exp`: inf above 709.78, 0 below -745.14, NaN at NaN. Sets no errno, raises nothing.
[[nodiscard]] constexpr double portable_exp(double x) noexcept {
  using limits = std::numeric_limits<double>;
  if (x != x) return x;
  if (x > 709.782712893384) return limits::infinity();
  if (x < -745.1332191019412) return 0.0;

  // x = k ln 2 + r with |r| <= ln(2) / 2.
  constexpr double log2_e = 0x1.71547652b82fep+0;
  double const scaled = x * log2_e;
  int const k = static_cast<int>(scaled + (scaled < 0 ? -0.5 : 0.5));
  double const r = (x - k * ln2_high) - k * ln2_low;

  double tail = 1.0;
  for (int n = 13; n >= 2; --n) tail = 1.0 + tail * r / n;
  double const result = 1.0 + r * tail;

  // In two factors: k reaches 1024 at the upper end, and goes below -1022 for subnormal results.
  int const half = k / 2;
  return result * power_of_two(half) * power_of_two(k - half);
}

}  // namespace rubato::detail
