// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/extending_admission.hpp"

namespace rubato {

/// A worker waits once it is more than `low` clocks ahead, unless its next commits and those of the slowest worker,
/// which are expected at their last intervals, come closest to each other after some clocks more: then it makes these
/// first. Intervals are from commit to commit, as in the paper, so that waits count. O(range). Source: as `dssp`.
struct predicted_staleness {
  staleness low;   ///< s_L
  staleness high;  ///< s_U, at least s_L, and less than a million above it

  void check() const {
    detail::expect_option(low <= high, "predicted_staleness: low", low.clocks(), "at most high");
    bool const is_near = high.clocks() - low.clocks() < 1'000'000;  // each clock between is looked at
    detail::expect_option(is_near || high.is_infinite(), "predicted_staleness: high", high.clocks(),
                          "less than a million above low");
  }
  [[nodiscard]] constexpr staleness bound() const noexcept { return high; }
  [[nodiscard]] constexpr clock_index need(clock_index c, staleness read) const noexcept {
    return c - std::min(read, low);
  }
  [[nodiscard]] constexpr clock_index cache_need(clock_index c, staleness read) const noexcept { return need(c, read); }
  [[nodiscard]] constexpr std::int64_t extra(commit_times const& own, commit_times const& slowest,
                                             std::int64_t most) const noexcept {
    std::int64_t const mine = (own.last - own.before).count(), others = (slowest.last - slowest.before).count();
    std::int64_t best = 0, nearest = apart(own.last, slowest.last, others);
    if (mine > 0) most = std::min(most, std::numeric_limits<std::int64_t>::max() / 4 / mine);
    for (std::int64_t r = 1; r <= most; ++r) {
      std::int64_t const gap = apart(own.last + duration(r * mine), slowest.last, others);
      if (gap >= nearest) continue;
      best = r;
      nearest = gap;
    }
    return best;
  }

 private:
  /// From a time to the nearest of the slowest worker's next commits.
  [[nodiscard]] static constexpr std::int64_t apart(time_point at, time_point last, std::int64_t interval) noexcept {
    std::int64_t const since = (at - last).count();
    if (since <= interval || interval == 0) return since <= interval ? interval - since : since;
    return std::min(since % interval, interval - since % interval);
  }
};
static_assert(extending_admission<predicted_staleness>);

}  // namespace rubato
