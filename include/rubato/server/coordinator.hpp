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
#include "rubato/server/stable_cuts.hpp"

namespace rubato {

/// Makes all shards agree on who is in the run. A state machine without I/O: events come in, and
/// each may answer with one order, which the driver carries to every shard in FIFO order, and whose
/// reports it brings back. Not synchronized.
///
///     join ── enlist ──> all shards report their c_min ── start at the greatest ──> joined
///     leave ── drop below the worker's own clock ──> left
///     lose ── freeze ──> all shards report what they received ── drop below the least ──> left
///
/// Under partition synchronization it also grants the cuts, see `cuts`.
///
/// Source: rules §1.
class coordinator {
 public:
  /// @param grants_cuts whether reads are synchronized
  explicit coordinator(std::uint32_t servers, bool grants_cuts = false)
      : servers_(servers), grants_cuts_(grants_cuts), cuts_(servers) {}

  [[nodiscard]] epoch_id epoch() const noexcept { return epoch_; }
  /// Empty unless reads are synchronized.
  [[nodiscard]] stable_cuts& cuts() noexcept { return cuts_; }
  [[nodiscard]] stable_cuts const& cuts() const noexcept { return cuts_; }

  /// Whether this worker may ask for a cut.
  [[nodiscard]] refusal check(sender const& from) const noexcept {
    if (from.stage != stage_) return refusal::stage;
    auto const found = members_.find(from.worker);
    if (found == members_.end() || found->second.now != state::live) return refusal::stranger;
    return found->second.incarnation == from.incarnation ? refusal::none : refusal::incarnation;
  }

  /// Forgets the workers of the stage before; its late reports concern nobody.
  void begin_stage(stage_id stage) {
    stage_ = stage;
    members_.clear();
    cuts_.begin_stage();
  }

  [[nodiscard]] membership_order join(worker_id w, incarnation_id incarnation) {
    members_[w] = {state::joining, incarnation, servers_, clock_index::lowest(), {}};
    tell_cuts(&stable_cuts::join, w);
    return order(membership_order::kind::enlist, w, {});
  }

  /// The worker has ended by itself at this clock: all its commits count.
  [[nodiscard]] membership_order leave(worker_id w, clock_index at) {
    tell_cuts(&stable_cuts::leave, w, at);
    return order(membership_order::kind::drop, w, at, true);
  }

  /// The worker is lost. Nothing to do when it has left already.
  [[nodiscard]] std::optional<membership_order> lose(worker_id w) {
    auto const found = members_.find(w);
    if (found == members_.end() || found->second.now == state::losing) return std::nullopt;
    found->second.now = state::losing;
    found->second.missing = servers_;
    found->second.clock = clock_index::highest();
    tell_cuts(&stable_cuts::forget, w);
    return order(membership_order::kind::freeze, w, {});
  }

  /// A shard's report on an order of this worker's; answers with the next order once all have
  /// reported.
  [[nodiscard]] std::optional<membership_order> report(membership_order const& about,
                                                       membership_report const& said) {
    auto const found = members_.find(about.worker);
    if (found == members_.end() || about.stage != stage_) return std::nullopt;
    member& m = found->second;
    if (m.incarnation != about.incarnation) return std::nullopt;  // of an earlier life
    bool const joining = about.what == membership_order::kind::enlist;
    if (m.now != (joining ? state::joining : state::losing)) return std::nullopt;  // overtaken
    m.clock = joining ? std::max(m.clock, said.clock) : std::min(m.clock, said.clock);
    m.version = std::max(m.version, said.version);
    if (--m.missing != 0) return std::nullopt;
    return joining ? started(about.worker, m) : dropped(about.worker, m);
  }

 private:
  enum class state : std::uint8_t { joining, live, losing };
  struct member {
    state now;
    incarnation_id incarnation;
    std::uint32_t missing;    ///< shards that have not reported
    clock_index clock;        ///< over the reports so far
    version_index version{};  ///< the greatest that they reported
  };

  /// Where reads are not synchronized nobody asks for a cut, and there is nothing to keep track of.
  template <class... Args>
  void tell_cuts(void (stable_cuts::*event)(Args...), Args... args) {
    if (grants_cuts_) (cuts_.*event)(args...);
  }

  membership_order started(worker_id w, member& m) {
    m.now = state::live;
    tell_cuts(&stable_cuts::start, w, m.clock);
    membership_order o = order(membership_order::kind::start, w, m.clock);
    // Where reads are synchronized, shards have folded less than the joiner's clock says.
    o.version = std::max(m.version, version_index{m.clock.value()});
    return o;
  }

  membership_order dropped(worker_id w, member const& m) {
    tell_cuts(&stable_cuts::lose, w, m.clock);
    return order(membership_order::kind::drop, w, m.clock, true);
  }

  membership_order order(membership_order::kind what, worker_id w, clock_index at,
                         bool last = false) {
    auto const found = members_.find(w);
    RUBATO_ASSERT(found != members_.end());
    epoch_ = epoch_id{epoch_.value() + 1};
    membership_order const o{what, w, found->second.incarnation, at, epoch_, stage_, {}};
    if (last) members_.erase(found);
    return o;
  }

  std::uint32_t servers_;
  bool grants_cuts_;
  stable_cuts cuts_;
  epoch_id epoch_{0};
  stage_id stage_{};
  std::map<worker_id, member> members_;
};

}  // namespace rubato
