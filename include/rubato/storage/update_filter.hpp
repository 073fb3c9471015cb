// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
/// Or all but the largest, by magnitude: `.filter = {.largest = 0.01, .small = small_entries::carry}`
/// sends one in a hundred of those that a commit has for a server, with their rows' numbers where that
/// is shorter than zeros. Entries as large as the least of these go, too, zeros never. That costs
/// O(entries) in time and memory with each commit. Source: Lin et al., "Deep gradient compression",
/// ICLR 2018, §3.1; Stich et al., "Sparsified SGD with memory", NeurIPS 2018, Algorithm 1; Alistarh et
/// al., "The convergence of sparsified gradient methods", NeurIPS 2018.
///
/// A worker's own reads show carried entries, as they show all of its pushes. Dropped ones they
/// show no more; only rows that it had fetched by key before may, until they are fetched again. The
/// commit that ends a worker's body sends what was carried, too; what a commit right before the end
/// has left over is lost, for a commit of leftovers would count as one more update.
struct update_filter {
  /// Entries with |x| below it are not sent; 0 sends all. Unless set it is 0, and 1e-6 for
  /// `multi_version` tables of floating point.
  std::optional<double> threshold{};
  double largest = 1;  ///< of the entries that a commit has, the share that is sent, in (0, 1]; 1: all
  small_entries small = small_entries::drop;  ///< what becomes of the entries that are left out

  /// Whether everything is sent.
  [[nodiscard]] constexpr bool off() const noexcept { return limit() == 0 && largest == 1; }
  /// Entries whose magnitude is below it are small.
  [[nodiscard]] constexpr double limit() const noexcept { return threshold.value_or(0.0); }
  /// The same filter for a part of a commit that has these entries: by a threshold alone.
  template <class T>
  [[nodiscard]] update_filter narrowed(std::span<T const> entries) const {
    update_filter by_threshold{threshold, 1, small};
    if (largest == 1 || entries.empty()) return by_threshold;
    std::vector<double> sizes(entries.size());
    std::transform(entries.begin(), entries.end(), sizes.begin(), [](T x) {
      double const size = std::abs(static_cast<double>(x));
      return std::isnan(size) ? std::numeric_limits<double>::infinity() : size;
    });
    double const share = std::ceil(largest * static_cast<double>(sizes.size()));
    auto const least = sizes.end() - static_cast<std::ptrdiff_t>(share);
    std::nth_element(sizes.begin(), least, sizes.end());
    by_threshold.threshold = std::max({limit(), *least, std::numeric_limits<double>::denorm_min()});
    return by_threshold;
  }
  /// Whether this entry is sent: one that is not a number always is. @pre not `off()`, and `largest` is 1
  template <class T>
  [[nodiscard]] bool sends(T x) const noexcept {
    return !(std::abs(static_cast<double>(x)) < limit());
  }

  /// @throws option_error unless the threshold is finite and not negative, and `largest` a share
  void check() const {
    if (!std::isfinite(limit()) || limit() < 0)
      throw option_error("filter: threshold must be finite and 0 or more, but is " +
                         std::to_string(limit()));
    if (!(largest > 0 && largest <= 1))
      throw option_error("filter: largest must be in (0, 1], a share of the entries, but is " +
                         std::to_string(largest));
  }
};

}  // namespace rubato
