// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <functional>

#include "rubato/partition/concepts.hpp"

namespace rubato {

/// A partition given as a function of key and shape, a lambda usually.
template <std::copyable F>
  requires std::regular_invocable<F const&, key, table_shape>
class by_function {
 public:
  /// @param f is called as `f(key, table_shape)` and answers a `server_id`, or what converts to it; it must be pure
  constexpr explicit by_function(F f) : f_(std::move(f)) {}

  [[nodiscard]] constexpr server_id server_of(key k, table_shape shape) const {
    return std::invoke(f_, k, shape);
  }

 private:
  F f_;
};

}  // namespace rubato
