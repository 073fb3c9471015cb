// expect alone: a codec needs bytes(std::size_t) const noexcept, which gives a std::size_t
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <cstddef>
#include <rubato/storage/codec.hpp>
#include <span>

struct halves {
  static std::size_t bytes(std::size_t n) { return 2 * n; }
  static void encode(std::span<float const>, std::span<std::byte>) noexcept {}
  static void decode(std::span<std::byte const>, std::span<float>) noexcept {}
};

rubato::table_codec const codec{.updates = halves{}};
