// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>

#include "rubato/core/error.hpp"

namespace rubato {

/// A span of T that also converts from Eigen's vectors, arrays, maps, refs and blocks, without
/// including Eigen. A matrix counts as its elements in storage order.
///
/// @throws usage_error when an Eigen expression is not contiguous in memory
template <class T>
class flat : public std::span<T> {
 public:
  template <class R>
    requires std::convertible_to<R&&, std::span<T>>
  constexpr flat(R&& range) : std::span<T>(std::forward<R>(range)) {}  // NOLINT: meant to convert

  template <class E>
    requires(!std::convertible_to<E &&, std::span<T>> &&
             requires(E& e) {
               { e.data() } -> std::convertible_to<T*>;
               e.size();
               e.innerStride();
               e.outerStride();
               e.innerSize();
             })
  flat(E&& e) : std::span<T>(e.data(), static_cast<std::size_t>(e.size())) {  // NOLINT: as above
    bool const one_piece = e.outerSize() <= 1 || e.outerStride() == e.innerSize();
    if (e.size() > 1 && (e.innerStride() != 1 || !one_piece))
      throw usage_error(errc::wrong_size,
                        "an Eigen expression with gaps between its elements was given, expected "
                        "contiguous ones");
  }
};

}  // namespace rubato
