// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <rubato/core/random.hpp>
#include <span>
#include <vector>

namespace rubato::test {

/// Of many magnitudes, so that another order of operations shows in the last bits.
template <class T>
std::vector<T> random_numbers(random_stream& random, std::size_t n) {
  std::vector<T> all(n);
  for (T& x : all) {
    double const scale = random.chance(0.5) ? 1 : 1000;
    x = static_cast<T>(random.normal() * scale);
  }
  return all;
}

/// The first place where they differ in value, for a message that says more than "false".
template <class T>
std::optional<std::size_t> difference(std::span<T const> a, std::span<T const> b) {
  if (a.size() != b.size()) return std::min(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i])) return i;
  return std::nullopt;
}
template <class T>
std::optional<std::size_t> difference(std::vector<T> const& a, std::vector<T> const& b) {
  return difference(std::span<T const>(a), std::span<T const>(b));
}

}  // namespace rubato::test
