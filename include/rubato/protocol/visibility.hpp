// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// Commits are folded as they come. A reader may see stamp c + s of a worker that now waits, one
/// more than 001 Eq. 2 has; nothing is kept on the server but the parameters.
struct eager {
  static constexpr bool holds_back = false;
  [[nodiscard]] constexpr clock_index horizon(fold_window const&) const noexcept {
    return clock_index::highest();
  }
};
static_assert(visibility_policy<eager>);

/// Commits with stamp t are folded once t < c_min + s, in the order (stamp, worker), so that a read
/// at clock c reflects nothing of another worker with a stamp above c + s − 1 (SSP-4, 001 Eq. 2).
/// With s = 0 the order makes the fold deterministic: that is BSP, bit for bit. Holds back at most
/// one clock of updates, never a reader's own, and adds no waiting.
struct strict {
  static constexpr bool holds_back = true;
  [[nodiscard]] constexpr clock_index horizon(fold_window const& w) const noexcept {
    return w.c_min + w.bound;
  }
};
static_assert(visibility_policy<strict>);

/// Partition synchronization: a read sees the same commits on every server, namely a cut that all
/// of them have received, and its own. The coordinator grants the cut; servers keep what is above
/// the least cut in use one commit at a time. Costs a round trip to the coordinator per read, which
/// takes O(workers + commits above that cut), and memory for the commits of about one clock. Rows
/// read by key in one call are of one cut: if any of them must be fetched, all are. Source: 000 §6
/// and App. E, as corrected in rules §4.
struct stable_cut {
  static constexpr bool holds_back = true;
  static constexpr bool synchronized = true;
  /// What any cut includes.
  [[nodiscard]] constexpr clock_index horizon(fold_window const& w) const noexcept {
    return w.c_min;
  }
};
static_assert(synchronized_visibility<stable_cut> && !synchronized_visibility<strict>);

}  // namespace rubato
