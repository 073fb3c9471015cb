// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

#include "rubato/core/error.hpp"

namespace rubato {

/// How many clocks a read may lag behind: a count ≥ 0, or `staleness::infinite()`.
///
/// Converts from an integer, so that `ssp{.staleness = 3}` reads as it should.
/// @throws option_error when the integer is negative.
class staleness {
 public:
  constexpr staleness() noexcept = default;
  /// So many clocks, 0 or more. @throws option_error for less
  constexpr staleness(std::int64_t clocks) : clocks_(clocks) {  // NOLINT: meant to be implicit
    if (clocks < 0) throw option_error("staleness: must be 0 or more clocks");
  }
  /// No bound at all: nobody waits.
  [[nodiscard]] static constexpr staleness infinite() noexcept {
    staleness s;
    s.clocks_ = std::numeric_limits<std::int64_t>::max();
    return s;
  }

  /// The number; of an infinite one the greatest that there is.
  [[nodiscard]] constexpr std::int64_t clocks() const noexcept { return clocks_; }
  /// whether there is no bound
  [[nodiscard]] constexpr bool is_infinite() const noexcept { return *this == infinite(); }
  friend constexpr auto operator<=>(staleness, staleness) noexcept = default;

 private:
  std::int64_t clocks_ = 0;
};

/// A worker's clock: the number of its commits so far (001 §2). A commit is *stamped* with the
/// clock before it, so the first one carries stamp 0 and moves the worker to clock 1.
///
/// Arithmetic saturates at `lowest()` and `highest()`, which stand for "any" and "never".
class clock_index {
 public:
  constexpr clock_index() noexcept = default;
  /// The clock of that number.
  constexpr explicit clock_index(std::int64_t value) noexcept : value_(value) {}

  /// Below every clock that a worker can have: "any", as a bound.
  [[nodiscard]] static constexpr clock_index lowest() noexcept {
    return clock_index{std::numeric_limits<std::int64_t>::min()};
  }
  /// Above every clock that a worker can have: "never", as a bound.
  [[nodiscard]] static constexpr clock_index highest() noexcept {
    return clock_index{std::numeric_limits<std::int64_t>::max()};
  }

  [[nodiscard]] constexpr std::int64_t value() const noexcept { return value_; }  ///< its number
  /// The one after it; `highest()` stays.
  [[nodiscard]] constexpr clock_index next() const noexcept {
    return *this == highest() ? *this : clock_index{value_ + 1};
  }

  friend constexpr auto operator<=>(clock_index, clock_index) noexcept = default;

  /// The clock s before c; `lowest()` where s is infinite.
  friend constexpr clock_index operator-(clock_index c, staleness s) noexcept {
    if (s.is_infinite() || c == lowest()) return lowest();
    if (c == highest()) return c;
    return c.value_ < lowest().value_ + s.clocks() ? lowest() : clock_index{c.value_ - s.clocks()};
  }
  /// The clock s after c; `highest()` where s is infinite.
  friend constexpr clock_index operator+(clock_index c, staleness s) noexcept {
    if (s.is_infinite() || c == highest()) return highest();
    if (c == lowest()) return c;
    if (c.value_ > highest().value_ - s.clocks()) return highest();
    return clock_index{c.value_ + s.clocks()};
  }

 private:
  std::int64_t value_ = 0;
};

/// Clocks from `from` up to `to`; both must be finite.
[[nodiscard]] constexpr std::int64_t distance(clock_index from, clock_index to) noexcept {
  return to.value() - from.value();
}

}  // namespace rubato
