// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>

namespace rubato::detail {

/// Fetches the bytes from `at + from` to `at + to` into the cache, to be written soon.
///
/// g++ takes a function that does nothing but prefetch for one without effects, and drops the calls of it: so a
/// simulator once lost all of this, and a third of its speed. The empty instruction is an effect.
inline void prefetch(void const* at, std::ptrdiff_t from, std::ptrdiff_t to) noexcept {
  constexpr std::ptrdiff_t line = 64;
  for (; from < to; from += line) __builtin_prefetch(static_cast<char const*>(at) + from, 1);
  __asm__ volatile("");
}

/// The same of one line that is going to be read: others may keep it.
inline void prefetch_to_read(void const* at) noexcept {
  __builtin_prefetch(at, 0);
  __asm__ volatile("");
}

}  // namespace rubato::detail
