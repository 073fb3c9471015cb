// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "rubato/protocol/extending_admission.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// A worker waits once it is more than `low` clocks ahead, unless its next commits and those of the slowest worker,
/// which are expected at their last intervals, come closest to each other after some clocks more: then it makes these
/// first. Intervals are from commit to commit, as in the paper, so that waits count. O(range). Source: as `dssp`.
struct predicted_staleness {
  staleness low;   ///< s_L
  staleness high;  ///< s_U, at least s_L

  [[nodiscard]] constexpr staleness bound() const noexcept { return high; }
  [[nodiscard]] constexpr clock_index need(clock_index c, staleness read) const noexcept {
    return c - std::min(read, low);
  }
  [[nodiscard]] constexpr clock_index cache_need(clock_index c, staleness read) const noexcept { return need(c, read); }
  [[nodiscard]] constexpr std::int64_t extra(commit_times const& own, commit_times const& slowest,
                                             std::int64_t most) const noexcept {
    std::int64_t const mine = (own.last - own.before).count(), others = (slowest.last - slowest.before).count();
    std::int64_t best = 0, nearest = apart(own.last, slowest.last, others);
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

/// Dynamic stale synchronous parallel: SSP whose staleness moves between two bounds, from worker to worker and from
/// clock to clock. With `low` = `high` it is SSP, bit for bit.
///
/// Guarantee: that of SSP with s = `high`. Source: Zhao, An, Liu, Chen, "Dynamic Stale Synchronous Parallel Distributed
/// Training for Deep Learning", ICDCS 2019, Algorithms 1 and 2, which do not keep to s_U where one extension follows
/// another; here all together do. So who is always faster waits as long as under SSP, if at other times. Without that,
/// and with waits for one commit of the slowest, it would hardly wait, nor be bounded, whatever intervals are.
struct dssp {
  rubato::staleness low = 3;    ///< s_L
  rubato::staleness high = 15;  ///< s_U

  [[nodiscard]] constexpr predicted_staleness admission() const noexcept { return {low, std::max(low, high)}; }
  [[nodiscard]] constexpr eager visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr sum merge() const noexcept { return {}; }
  [[nodiscard]] constexpr every_step pace() const noexcept { return {}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "dssp"; }
};
static_assert(protocol<dssp>);

}  // namespace rubato
