// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "rubato/partition/concepts.hpp"

namespace rubato {

/// A partition given as a function of key and shape, a lambda usually.
template <std::copy_constructible F>
  requires std::regular_invocable<F const&, key, table_shape> && std::is_nothrow_move_constructible_v<F>
class by_function {
 public:
  /// @param f is called as `f(key, table_shape)` and answers a `server_id`, or what converts to it; it must be pure
  constexpr explicit by_function(F f) : f_(std::move(f)) {}
  constexpr by_function(by_function const&) = default;
  constexpr by_function(by_function&&) noexcept = default;
  constexpr by_function& operator=(by_function const& other) { return *this = by_function(other); }
  /// A lambda that has captured something cannot be assigned.
  constexpr by_function& operator=(by_function&& other) noexcept {
    if (this == &other) return *this;
    std::destroy_at(&f_);
    std::construct_at(&f_, std::move(other.f_));
    return *this;
  }
  constexpr ~by_function() = default;

  [[nodiscard]] constexpr server_id server_of(key k, table_shape shape) const {
    return std::invoke(f_, k, shape);
  }

 private:
  F f_;
};

}  // namespace rubato
