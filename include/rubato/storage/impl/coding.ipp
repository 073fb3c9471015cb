// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "rubato/storage/coding.hpp"

namespace rubato {

namespace detail {

/// Calls `f(first, count)` for each piece of `bytes` bytes of values.
template <class F>
void for_each_coded_piece(std::size_t bytes, std::size_t piece, F f) {
  for (std::size_t first = 0; first < bytes; first += piece) f(first, std::min(piece, bytes - first));
}

/// A piece of a table's values as floats, which codecs know.
class float_piece {
 public:
  explicit float_piece(element_type element) noexcept : wide_(element == element_type::float64) {}

  [[nodiscard]] std::span<float const> of(std::byte const* values, std::size_t bytes) {
    if (!wide_) return {reinterpret_cast<float const*>(values), bytes / sizeof(float)};
    auto const* const from = reinterpret_cast<double const*>(values);
    floats_.resize(bytes / sizeof(double));
    std::transform(from, from + floats_.size(), floats_.begin(), [](double x) { return nearest(x); });
    return floats_;
  }
  /// Calls `write` with where floats go, and brings them to where values are.
  template <class F>
  void into(std::byte* values, std::size_t bytes, F write) {
    if (!wide_) return write(std::span(reinterpret_cast<float*>(values), bytes / sizeof(float)));
    floats_.resize(bytes / sizeof(double));
    write(std::span<float>(floats_));
    std::copy(floats_.begin(), floats_.end(), reinterpret_cast<double*>(values));
  }

 private:
  /// Finite where it is finite.
  [[nodiscard]] static float nearest(double x) noexcept {
    constexpr double greatest = std::numeric_limits<float>::max();
    return static_cast<float>(std::isfinite(x) ? std::clamp(x, -greatest, greatest) : x);
  }

  bool wide_;
  std::vector<float> floats_;
};

}  // namespace detail

void coding::encode(std::span<std::byte const> values, std::span<std::byte> to) const {
  detail::float_piece piece(element_);
  std::byte* out = to.data();
  detail::for_each_coded_piece(values.size(), piece_bytes_, [&](std::size_t first, std::size_t n) {
    std::size_t const coded = codec_.bytes(count(n));
    codec_.encode(piece.of(values.data() + first, n), {out, coded});
    out += coded;
  });
}

void coding::decode(std::span<std::byte const> from, std::span<std::byte> values) const {
  detail::float_piece piece(element_);
  std::byte const* in = from.data();
  detail::for_each_coded_piece(values.size(), piece_bytes_, [&](std::size_t first, std::size_t n) {
    std::size_t const coded = codec_.bytes(count(n));
    piece.into(values.data() + first, n, [&](std::span<float> to) { codec_.decode({in, coded}, to); });
    in += coded;
  });
}

void coding::round(std::span<std::byte> values) const {
  std::vector<std::byte> coded;
  detail::for_each_coded_piece(values.size(), piece_bytes_, [&](std::size_t first, std::size_t n) {
    coded.resize(codec_.bytes(count(n)));
    encode(values.subspan(first, n), coded);
    decode(coded, values.subspan(first, n));
  });
}

}  // namespace rubato
