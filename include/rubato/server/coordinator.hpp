// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "rubato/core/assert.hpp"
#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/server/messages.hpp"

namespace rubato {

/// Makes all shards agree on who is in the run. A state machine without I/O: events come in, and
/// each may answer with one order, which the driver carries to every shard in FIFO order, and whose
/// reports it brings back. Not synchronized.
///
///     join ── enlist ──> all shards report their c_min ── start at the greatest ──> joined
///     leave ── drop below the worker's own clock ──> left
///     lose ── freeze ──> all shards report what they received ── drop below the least ──> left
///
/// Source: rules §1.
class coordinator {
 public:
  explicit coordinator(std::uint32_t servers) : servers_(servers) {}

  [[nodiscard]] epoch_id epoch() const noexcept { return epoch_; }

  /// Forgets the workers of the stage before; its late reports concern nobody.
  void begin_stage(stage_id stage) {
    stage_ = stage;
    members_.clear();
  }

  [[nodiscard]] membership_order join(worker_id w, incarnation_id incarnation) {
    members_[w] = {state::joining, incarnation, servers_, clock_index::lowest()};
    return order(membership_order::kind::enlist, w, {});
  }

  /// The worker has ended by itself at this clock: all its commits count.
  [[nodiscard]] membership_order leave(worker_id w, clock_index at) {
    return order(membership_order::kind::drop, w, at, true);
  }

  /// The worker is lost. Nothing to do when it has left already.
  [[nodiscard]] std::optional<membership_order> lose(worker_id w) {
    auto const found = members_.find(w);
    if (found == members_.end() || found->second.now == state::losing) return std::nullopt;
    found->second.now = state::losing;
    found->second.missing = servers_;
    found->second.clock = clock_index::highest();
    return order(membership_order::kind::freeze, w, {});
  }

  /// A shard's report on an order of this worker's; answers with the next order once all have
  /// reported.
  [[nodiscard]] std::optional<membership_order> report(membership_order const& about,
                                                       clock_index clock) {
    auto const found = members_.find(about.worker);
    if (found == members_.end() || about.stage != stage_) return std::nullopt;
    member& m = found->second;
    if (m.incarnation != about.incarnation) return std::nullopt;  // of an earlier life
    bool const joining = about.what == membership_order::kind::enlist;
    if (m.now != (joining ? state::joining : state::losing)) return std::nullopt;  // overtaken
    m.clock = joining ? std::max(m.clock, clock) : std::min(m.clock, clock);
    if (--m.missing != 0) return std::nullopt;
    if (!joining) return order(membership_order::kind::drop, about.worker, m.clock, true);
    m.now = state::live;
    return order(membership_order::kind::start, about.worker, m.clock);
  }

 private:
  enum class state : std::uint8_t { joining, live, losing };
  struct member {
    state now;
    incarnation_id incarnation;
    std::uint32_t missing;  ///< shards that have not reported
    clock_index clock;      ///< over the reports so far
  };

  membership_order order(membership_order::kind what, worker_id w, clock_index at,
                         bool last = false) {
    auto const found = members_.find(w);
    RUBATO_ASSERT(found != members_.end());
    epoch_ = epoch_id{epoch_.value() + 1};
    membership_order const o{what, w, found->second.incarnation, at, epoch_, stage_};
    if (last) members_.erase(found);
    return o;
  }

  std::uint32_t servers_;
  epoch_id epoch_{0};
  stage_id stage_{};
  std::map<worker_id, member> members_;
};

}  // namespace rubato
