// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "rubato/storage/kkt_filter.hpp"

namespace rubato::algorithm {

/// The coordinates that a worker has still to look at, under a `kkt_filter`: in each pass over its own ones
///
///     active.begin_pass(p);
///     for (j : own)
///       if (active.contains(j)) { compute gradient; active.found(j, w_j, gradient); move w_j; }
///
/// The first pass has them all, and so has one of which is said that it is to: the last one, for what has become
/// active since. Belongs to one thread; 8 bytes a coordinate, none where the filter is off.
class kkt_active_set {
 public:
  /// @param filter that has been checked
  /// @param coordinates how many the worker owns, numbered from 0
  kkt_active_set(kkt_filter const& filter, std::size_t coordinates, double lambda)
      : filter_(filter), lambda_(lambda), left_out_(filter.off() ? 0 : coordinates, never) {}

  /// Pass `number` begins, or goes on if it is the same as before. @pre not below the one before, at least 0
  /// @param all whether each coordinate is looked at
  void begin_pass(std::int64_t number, bool all = false) noexcept {
    all_ = all;
    if (number == pass_) return;
    violation_ = pass_ == never ? std::numeric_limits<double>::infinity() : most_;
    most_ = 0;
    pass_ = number;
  }

  /// Whether coordinate `j` is looked at in this pass. @pre `j` is below their number
  [[nodiscard]] bool contains(std::size_t j) const noexcept {
    return filter_.off() || all_ || left_out_[j] == never || pass_ - left_out_[j] > filter_.passes;
  }

  /// Coordinate `j` was looked at, and this was found before it moved: perhaps it is left out from the next pass on.
  /// @param gradient of the smooth part
  void found(std::size_t j, double w, double gradient) noexcept {
    if (filter_.off()) return;
    most_ = std::max(most_, kkt_violation(w, gradient, lambda_));
    left_out_[j] = filter_.leaves_out(w, gradient, lambda_, violation_) ? pass_ : never;
  }

 private:
  static constexpr std::int64_t never = -1;

  kkt_filter filter_;
  double lambda_;
  std::vector<std::int64_t> left_out_;  ///< in which pass that was found, or never
  std::int64_t pass_ = never;
  bool all_ = false;
  double violation_ = std::numeric_limits<double>::infinity();  ///< the greatest one of the pass before
  double most_ = 0;                                             ///< of this pass, so far
};

}  // namespace rubato::algorithm
