// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "rubato/core/element.hpp"

/// What is done once per element. Loops of a fixed length within a loop, so that compilers use vectors
/// at -O2 already.
namespace rubato::detail {

inline constexpr std::size_t vector_elements = 16;

/// to ← to + weight·from; the two do not overlap
template <parameter T>
void add_scaled(T* __restrict to, T const* __restrict from, std::size_t n, double weight) noexcept {
  auto const w = static_cast<T>(weight);
  std::size_t i = 0;
  for (; i + vector_elements <= n; i += vector_elements)
    for (std::size_t k = 0; k < vector_elements; ++k) to[i + k] += w * from[i + k];
  for (; i < n; ++i) to[i] += w * from[i];
}

/// The same for a row, which is short: one element, most often.
template <parameter T>
void add_row(T* to, T const* from, std::size_t width, double weight = 1.0) noexcept {
  if (width == 1) *to += static_cast<T>(weight) * *from;
  else add_scaled(to, from, width, weight);
}

/// to ← weight·from; the two do not overlap
template <parameter T>
void set_scaled(T* __restrict to, T const* __restrict from, std::size_t n, double weight) noexcept {
  auto const w = static_cast<T>(weight);
  std::size_t i = 0;
  for (; i + vector_elements <= n; i += vector_elements)
    for (std::size_t k = 0; k < vector_elements; ++k) to[i + k] = w * from[i + k];
  for (; i < n; ++i) to[i] = w * from[i];
}

/// to ← base + weight·from, in one pass; `to` overlaps neither
template <parameter T>
void add_scaled_into(T* __restrict to, T const* base, T const* from, std::size_t n,
                     double weight) noexcept {
  auto const w = static_cast<T>(weight);
  std::size_t i = 0;
  for (; i + vector_elements <= n; i += vector_elements)
    for (std::size_t k = 0; k < vector_elements; ++k) to[i + k] = base[i + k] + w * from[i + k];
  for (; i < n; ++i) to[i] = base[i] + w * from[i];
}

/// The greatest |x|, infinity where one is not a number; 0 of none
template <parameter T>
[[nodiscard]] double greatest_magnitude(T const* from, std::size_t n) noexcept {
  T most[vector_elements] = {}, least[vector_elements] = {};  // |x| of the least integer is none
  T rest[vector_elements] = {};  // stays 0 as long as all are finite
  std::size_t i = 0;
  for (; i + vector_elements <= n; i += vector_elements)
    for (std::size_t k = 0; k < vector_elements; ++k) {
      most[k] = most[k] < from[i + k] ? from[i + k] : most[k];
      least[k] = from[i + k] < least[k] ? from[i + k] : least[k];
      rest[k] += from[i + k] - from[i + k];
    }
  double greatest = 0;
  for (; i < n; ++i) {
    most[0] = most[0] < from[i] ? from[i] : most[0];
    least[0] = from[i] < least[0] ? from[i] : least[0];
    rest[0] += from[i] - from[i];
  }
  for (std::size_t k = 0; k < vector_elements; ++k) {
    if (rest[k] != T{}) return std::numeric_limits<double>::infinity();
    greatest = std::max({greatest, static_cast<double>(most[k]), -static_cast<double>(least[k])});
  }
  return greatest;
}

/// to ← factor·to
template <parameter T>
void multiply(T* to, std::size_t n, double factor) noexcept {
  auto const f = static_cast<T>(factor);
  std::size_t i = 0;
  for (; i + vector_elements <= n; i += vector_elements)
    for (std::size_t k = 0; k < vector_elements; ++k) to[i + k] *= f;
  for (; i < n; ++i) to[i] *= f;
}

}  // namespace rubato::detail
