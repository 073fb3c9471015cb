// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <rubato/core/assert.hpp>
#include <rubato/core/mix.hpp>
#include <rubato/core/portable_math.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

namespace rubato {
namespace detail {

/// splitmix64 (Steele, Lea, Flood 2014): turns one word of seed into as many as a generator needs.
struct splitmix64 {
  std::uint64_t state;

  constexpr std::uint64_t operator()() noexcept { return mix64(state += 0x9e3779b97f4a7c15u); }
};

/// xoshiro256** 1.0 (Blackman, Vigna 2018): period 2^256 - 1, 32 bytes, under 1 ns a word.
/// The state must not be all zeros.
struct xoshiro256starstar {
  std::array<std::uint64_t, 4> s;

  constexpr std::uint64_t operator()() noexcept {
    std::uint64_t const result = std::rotl(s[1] * 5, 7) * 9;
    std::uint64_t const t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = std::rotl(s[3], 45);
    return result;
  }

  friend constexpr bool operator==(xoshiro256starstar const&,
                                   xoshiro256starstar const&) noexcept = default;
};

__extension__ using uint128 = unsigned __int128;

}  // namespace detail

/// A stream of random numbers that is the same on every compiler, library and machine.
///
/// There is one stream per (seed, stream, incarnation): a worker takes its rank as `stream` and
/// counts its lives in `incarnation`, so what one worker draws never depends on the others. Two
/// triples that differ in one place never share a stream; others do so by chance only (2^-64).
///
/// The engine is xoshiro256**, seeded through splitmix64. The distributions are its own: those of
/// `<random>` differ between standard libraries. `random_stream` models
/// `std::uniform_random_bit_generator`; a copy continues independently with the same numbers.
///
/// Not for cryptography. No exceptions, no allocation. Distinct objects may be used from distinct
/// threads; a shared one needs a lock. Same results on all compilers need the flags that
/// portable_math.hpp asks for.
class random_stream {
 public:
  /// As the standard asks of a generator, so that its distributions take one.
  using result_type = std::uint64_t;

  /// The beginning of the stream of that triple.
  explicit constexpr random_stream(std::uint64_t seed, std::uint64_t stream = 0,
                                   std::uint64_t incarnation = 0) noexcept
      : engine_{{}} {
    std::uint64_t const with_stream = detail::splitmix64{seed}() ^ stream;
    std::uint64_t const with_incarnation = detail::splitmix64{with_stream}() ^ incarnation;
    detail::splitmix64 words{with_incarnation};
    for (std::uint64_t& word : engine_.s) word = words();
  }

  [[nodiscard]] static constexpr result_type min() noexcept { return 0; }  ///< the least that is drawn
  [[nodiscard]] static constexpr result_type max() noexcept {  ///< the greatest that is drawn
    return std::numeric_limits<result_type>::max();
  }

  /// 64 random bits.
  constexpr result_type operator()() noexcept { return engine_(); }

  /// Uniform on [0, 1): a multiple of 2^-53. Takes one word.
  [[nodiscard]] constexpr double uniform() noexcept {
    return static_cast<double>(engine_() >> 11) * 0x1p-53;
  }

  /// Uniform on 0 .. n-1 without bias; `n` must not be 0. Nearly always takes one word.
  /// Lemire, "Fast random integer generation in an interval", 2019.
  [[nodiscard]] constexpr std::uint64_t below(std::uint64_t n) noexcept {
    RUBATO_ASSERT(n != 0);
    auto product = static_cast<detail::uint128>(engine_()) * n;
    if (static_cast<std::uint64_t>(product) < n) {
      // The first 2^64 mod n products of each result are too many: draw again on those.
      std::uint64_t const surplus = (0 - n) % n;
      while (static_cast<std::uint64_t>(product) < surplus) {
        product = static_cast<detail::uint128>(engine_()) * n;
      }
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// True with probability `p`. Takes one word whatever `p` is, so that changing a probability from
  /// 0 does not shift all later draws.
  [[nodiscard]] constexpr bool chance(double p) noexcept { return uniform() < p; }

  /// Normal with mean 0 and variance 1, by Marsaglia's polar method.
  /// The method yields pairs; the second is thrown away, so that the engine is the whole state.
  [[nodiscard]] double normal() noexcept {
    for (;;) {
      double const x = 2.0 * uniform() - 1.0;
      double const y = 2.0 * uniform() - 1.0;
      double const r = x * x + y * y;
      if (r >= 1.0 || r == 0.0) continue;
      // sqrt is safe here: IEEE 754 wants it rounded correctly, as + and *.
      return x * std::sqrt(-2.0 * detail::portable_log(r) / r);
    }
  }

  /// Exponential with mean 1: never negative, may be 0. Takes one word.
  [[nodiscard]] constexpr double exponential() noexcept {
    return -detail::portable_log(1.0 - uniform());
  }

  /// Puts `items` into an order drawn uniformly from all (Fisher-Yates); linear.
  /// `T` must be swappable without exceptions.
  template <class T, std::size_t Extent>
  constexpr void shuffle(std::span<T, Extent> items) noexcept {
    using std::swap;
    for (std::size_t left = items.size(); left > 1; --left) {
      swap(items[left - 1], items[static_cast<std::size_t>(below(left))]);
    }
  }

  /// Equal streams yield equal numbers from here on.
  friend constexpr bool operator==(random_stream const&, random_stream const&) noexcept = default;

 private:
  detail::xoshiro256starstar engine_;
};

}  // namespace rubato
