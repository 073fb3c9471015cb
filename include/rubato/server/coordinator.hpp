// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

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
  [[nodiscard]] refusal check(sender const& from) const noexcept;

  /// Forgets the workers of the stage before; its late reports concern nobody.
  void begin_stage(stage_id stage) { begin_stage(stage, grants_cuts_); }
  /// The same, where reads are synchronized from now on, or not any more.
  void begin_stage(stage_id stage, bool grants_cuts);

  [[nodiscard]] membership_order join(worker_id w, incarnation_id incarnation);

  /// The worker has ended by itself at this clock: all its commits count.
  [[nodiscard]] membership_order leave(worker_id w, clock_index at);

  /// The worker is lost. Nothing to do when it has left already.
  [[nodiscard]] std::optional<membership_order> lose(worker_id w);

  /// A shard's report on an order of this worker's; answers with the next order once all have
  /// reported.
  [[nodiscard]] std::optional<membership_order> report(membership_order const& about,
                                                       membership_report const& said);

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

  membership_order started(worker_id w, member& m);
  membership_order dropped(worker_id w, member const& m);
  membership_order order(membership_order::kind what, worker_id w, clock_index at,
                         bool last = false);

  std::uint32_t servers_;
  bool grants_cuts_;
  stable_cuts cuts_;
  epoch_id epoch_{0};
  stage_id stage_{};
  std::map<worker_id, member> members_;
};

}  // namespace rubato
