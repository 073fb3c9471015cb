// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "rubato/core/error.hpp"

namespace rubato {

/// What becomes of the entries that an update_filter keeps from being sent.
enum class small_entries : std::uint8_t {
  drop,   ///< they are lost
  carry,  ///< they are part of the worker's next commit, where they may have grown
};

/// Keeps small entries of a commit from being sent: `.filter = {.threshold = 1e-6}`. What is looked
/// at is an entry's sum over the pushes since the last commit. Source: DynSGD, SIGMOD'17 §5.3.
///
/// A worker's own reads show carried entries, as they show all of its pushes. Dropped ones they
/// show no more; only rows that it had fetched by key before may, until they are fetched again. The
/// commit that ends a worker's body sends what was carried, too; what a commit right before the end
/// has left over is lost, for a commit of leftovers would count as one more update.
struct update_filter {
  /// Entries with |x| below it are not sent; 0 sends all. Unless set it is 0, and 1e-6 for
  /// `multi_version` tables of floating point.
  std::optional<double> threshold{};
  small_entries small = small_entries::drop;  ///< what becomes of the entries that are left out

  /// Whether everything is sent.
  [[nodiscard]] constexpr bool off() const noexcept { return limit() == 0; }
  /// Entries whose magnitude is below it are small.
  [[nodiscard]] constexpr double limit() const noexcept { return threshold.value_or(0.0); }
  /// Whether this entry is sent: one that is not a number always is. @pre not `off()`
  template <class T>
  [[nodiscard]] bool sends(T x) const noexcept {
    return !(std::abs(static_cast<double>(x)) < limit());
  }

  /// @throws option_error unless the threshold is finite and not negative
  void check() const {
    if (!std::isfinite(limit()) || limit() < 0)
      throw option_error("filter: threshold must be finite and 0 or more, but is " +
                         std::to_string(limit()));
  }
};

}  // namespace rubato
