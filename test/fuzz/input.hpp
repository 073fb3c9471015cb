// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

/// Ends the fuzzer with the input that led here, if something that must hold does not.
#define FUZZ_REQUIRE(condition)                                                               \
  ((condition)                                                                                \
       ? void()                                                                               \
       : (std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition), \
          std::abort()))

namespace rubato::fuzz {

using bytes = std::vector<std::byte>;

/// What the fuzzer gives, read from the front. Past the end all is 0, so that every input means
/// something, and a shorter one means the same with less in it.
class input {
 public:
  explicit input(std::span<std::byte const> of) noexcept : rest_(of) {}

  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }
  [[nodiscard]] std::uint8_t byte() noexcept {
    if (rest_.empty()) return 0;
    auto const first = std::to_integer<std::uint8_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return first;
  }
  [[nodiscard]] bool flag() noexcept { return (byte() & 1) != 0; }
  [[nodiscard]] std::size_t below(std::size_t limit) noexcept { return byte() % limit; }
  template <class T>
  [[nodiscard]] T raw() noexcept {
    T value{};
    std::size_t const size = std::min(sizeof value, rest_.size());
    std::memcpy(&value, rest_.data(), size);
    rest_ = rest_.subspan(size);
    return value;
  }
  /// Mostly a small number; else one at the edge of a type, or any.
  [[nodiscard]] std::uint64_t number() noexcept {
    constexpr std::array<std::uint64_t, 14> edges{0x7FFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFE,
                                                  0x8000000000000000, 0x8000000000000001,
                                                  0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFE,
                                                  0xFFFFFFFF,         0x100000000,
                                                  0x7FFFFFFF,         0x80000000,
                                                  0x4000000000000000, 0x2000000000000001,
                                                  1U << 20,           1U << 16};
    std::uint8_t const choice = byte();
    if (choice < 224) return choice % 32;
    if (choice < 240) return edges[choice % edges.size()];
    return raw<std::uint64_t>();
  }
  /// So many bytes, or what is left.
  [[nodiscard]] std::span<std::byte const> take(std::size_t count) noexcept {
    auto const some = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(some.size());
    return some;
  }

 private:
  std::span<std::byte const> rest_;
};

inline void append(bytes& to, std::span<std::byte const> more) {
  std::size_t const at = to.size();
  to.resize(at + more.size());
  if (!more.empty()) std::memcpy(to.data() + at, more.data(), more.size());
}

/// Bytes that differ from place to place, and from one salt to the next.
inline void append_pattern(bytes& to, std::size_t count, std::uint8_t salt) {
  constexpr std::size_t period = 65'521;
  static bytes const pattern = [] {
    bytes all(period + 256);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::byte((i * 131 + i / 251) & 0xFF);
    return all;
  }();
  for (; count > period; count -= period) append(to, std::span(pattern).subspan(salt, period));
  append(to, std::span(pattern).subspan(salt, count));
}

}  // namespace rubato::fuzz
