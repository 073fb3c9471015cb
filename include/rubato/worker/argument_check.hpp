// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rubato/core/clock.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/flat.hpp"
#include "rubato/core/ids.hpp"

namespace rubato::detail {

/// Checks what a body gives to a worker's pulls and pushes, before anything is touched. All throw
/// usage_error naming the call, the worker, the table, and what was expected.
template <class System>
class argument_check {
 public:
  argument_check(System const& system, std::uint32_t rank) : system_(system), rank_(rank) {}

  /// `given` elements are a whole table.
  template <std::size_t I>
  void whole(char const* call, std::size_t given) const {
    auto const& t = system_.template spec<I>();
    expect_size<I>(call, given, static_cast<std::size_t>(t.rows) * t.width, "rows");
  }
  /// `given` elements are this many rows.
  template <std::size_t I>
  void rows(char const* call, std::size_t keys, std::size_t given) const {
    expect_size<I>(call, given, keys * system_.template spec<I>().width, "keys");
  }

  template <std::size_t I, class Raw>
  [[nodiscard]] key to_key(char const* call, Raw raw) const {
    key k;
    if constexpr (std::same_as<Raw, key>) k = raw;
    else k = key{static_cast<std::uint64_t>(raw)};
    if (!system_.template locator<I>().contains(k))
      throw usage_error(errc::unknown_key, where<I>(call) + "key " + std::to_string(k.value()) +
                                               " is not in the table, expected one below " +
                                               std::to_string(system_.template spec<I>().rows));
    return k;
  }

  template <std::size_t I, class T>
  void finite(char const* call, flat<T const> values) const {
    if constexpr (std::floating_point<T>) {
      if (!system_.template spec<I>().check_finite) return;
      auto const bad = std::ranges::find_if(values, [](auto x) { return !std::isfinite(x); });
      if (bad != values.end())
        throw usage_error(errc::not_finite,
                          where<I>(call) + "element " + std::to_string(bad - values.begin()) +
                              " of the update is " + (std::isnan(*bad) ? "NaN" : "infinite"));
    }
  }

  /// The staleness that a read asked for, or else the protocol's.
  template <std::size_t I>
  [[nodiscard]] staleness allowed(std::optional<staleness> asked, staleness bound) const {
    if (!asked) return bound;
    if (*asked > bound)
      throw usage_error(errc::bad_staleness, where<I>("pull") + "staleness " +
                                                 std::to_string(asked->clocks()) +
                                                 " is more than the protocol's " +
                                                 std::to_string(bound.clocks()));
    return *asked;
  }

 private:
  template <std::size_t I>
  void expect_size(char const* call, std::size_t given, std::size_t expected, char const* of) const {
    if (given != expected)
      throw usage_error(errc::wrong_size, where<I>(call) + "the span has " + std::to_string(given) +
                                              " elements, expected " + std::to_string(expected) +
                                              " (" + of + " x width)");
  }

  template <std::size_t I>
  [[nodiscard]] std::string where(char const* call) const {
    return std::string(call) + ": worker " + std::to_string(rank_) + ", table " +
           std::to_string(I) + ": ";
  }

  System const& system_;
  std::uint32_t rank_;
};

}  // namespace rubato::detail
