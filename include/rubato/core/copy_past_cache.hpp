// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace rubato::detail {

/// Copies bytes of which there are more than a cache holds: written past it they cost half, since what is overwritten
/// is not read first, and nothing is pushed out for them. The ranges do not overlap.
inline void copy_past_cache(std::byte* to, std::byte const* from, std::size_t n) noexcept {
#if defined(__SSE2__)
  constexpr std::size_t unit = sizeof(__m128i);
  constexpr std::size_t line = 4 * unit;
  std::size_t const head = std::min(n, (unit - reinterpret_cast<std::uintptr_t>(to) % unit) % unit);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + line <= n; at += line) {
    _mm_prefetch(reinterpret_cast<char const*>(from + at + 8 * line), _MM_HINT_T0);
    auto const* const in = reinterpret_cast<__m128i const*>(from + at);
    auto* const out = reinterpret_cast<__m128i*>(to + at);
    __m128i const a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1), c = _mm_loadu_si128(in + 2),
                  d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  _mm_sfence();  // before anybody is told that they are there
  std::memcpy(to + at, from + at, n - at);
#else
  std::memcpy(to, from, n);
#endif
}

}  // namespace rubato::detail
