// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/progress.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/server/commit_log.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/server/waiting_room.hpp"

namespace rubato {

/// What a shard counts of itself.
struct shard_counters {
  std::uint64_t commits = 0;          ///< received and counted
  std::uint64_t refused = 0;          ///< messages of another stage, incarnation or clock
  std::uint64_t dropped = 0;          ///< commits of a lost worker, dropped before they were folded
  std::uint64_t partly_folded = 0;    ///< commits of a lost worker, folded here but not on all shards

  shard_counters& operator+=(shard_counters const& o) noexcept {
    commits += o.commits;
    refused += o.refused;
    dropped += o.dropped;
    partly_folded += o.partly_folded;
    return *this;
  }
};

/// The half of a shard that knows who is where: progress, membership, waiting requests and the log
/// of held-back commits. A state machine without I/O, locks or parameters; `Message` is what a
/// commit carries through the log.
///
/// A commit passes through it in steps, because the folding in between is done by whoever drives
/// the shard: `accept`, then either fold at once and `complete`, or `hold` and fold what
/// `take_ready` gives. Readers are let in by what `publish` has made known, so only after the folds.
/// Each step costs O(log workers).
template <admission_policy Admission, visibility_policy Visibility, class Message>
class shard_control {
 public:
  /// Commits that are folded in one step: those of a stamp under the barrier, else one alone.
  struct fold_group {
    std::vector<std::pair<commit_info, Message>> commits;
  };

  shard_control(Admission admission, Visibility visibility)
      : admission_(std::move(admission)), visibility_(std::move(visibility)) {}

  /// Starts all clocks anew. What a stage that was ended early left held back is dropped.
  void begin_stage(stage_id stage) {
    log_ = {};
    stage_ = stage;
    progress_ = {};
    members_.clear();
    waiting_.clear();
    taken_below_ = clock_index{0};
    folded_below_ = clock_index{0};
    published_ = clock_index{0};
    counters_ = {};
  }

  // ---- commits

  /// Whether a commit may be applied, exactly once and in order.
  [[nodiscard]] refusal accept(sender const& from, clock_index stamp) {
    refusal const r = check(from);
    if (r != refusal::none || stamp == members_[from.worker.index()].received) {
      if (r == refusal::none) members_[from.worker.index()].received = stamp.next();
      else ++counters_.refused;
      return r;
    }
    ++counters_.refused;
    return refusal::order;
  }

  /// What the merges are told about a commit that is folded as it arrives. When the last worker has
  /// gone, what was held back is still folded: by its weight for one worker, at the clock left at.
  [[nodiscard]] commit_info info(sender const& from, clock_index stamp,
                                 version_index version) const noexcept {
    return {.from = from.worker,
            .stamp = stamp,
            .c_min = progress_.floor(),
            .c_max = std::max(progress_.c_max(), progress_.floor()),
            .workers = static_cast<std::uint32_t>(std::max<std::size_t>(progress_.live(), 1)),
            .version = version};
  }

  /// Keeps a commit until visibility lets it be folded.
  void hold(sender const& from, clock_index stamp, Message message) {
    log_.add(stamp, from.worker, std::move(message));
  }

  /// The commit has been folded or held: the worker's clock moves on.
  void complete(sender const& from, clock_index stamp) {
    ++counters_.commits;
    member& m = members_[from.worker.index()];
    if (m.state == standing::gone) return;  // dropped while it was being folded
    progress_.advance(from.worker, stamp.next());
    if (m.state == standing::leaving && m.received >= m.cut) retire(from.worker);
  }

  /// The held-back commits that may be folded now, in the order in which to fold them. The caller
  /// folds them all before it calls `publish`.
  [[nodiscard]] std::vector<fold_group> take_ready() {
    auto const horizon_at = [this](clock_index c_min) {
      return visibility_.horizon({.c_min = c_min, .bound = admission_.bound()});
    };
    clock_index const horizon = horizon_at(progress_.c_min());
    std::vector<fold_group> groups;
    for (auto& [stamp, commits] : log_.take_below(horizon)) {
      bool const together = one_step_per_clock();
      for (auto& [worker, message] : commits) {
        if (groups.empty() || !together || &commits.begin()->second == &message) groups.emplace_back();
        commit_info i = info({.worker = worker, .incarnation = {}, .stage = {}}, stamp,
                             message.version);
        if (together) i.workers = static_cast<std::uint32_t>(commits.size());
        groups.back().commits.emplace_back(i, std::move(message));
      }
    }
    // By the floor: when all have left the horizon is "never", which is not so for those who join.
    taken_below_ = std::max(taken_below_, horizon_at(progress_.floor()));
    return groups;
  }

  /// Under the barrier all commits of a stamp make one step of a merge with velocity, and M is
  /// their number. Strict visibility with s = 0 is the barrier, however it is spelled.
  [[nodiscard]] bool one_step_per_clock() const noexcept {
    return Visibility::holds_back && admission_.bound() == staleness{0};
  }

  /// Makes the progress known to readers, and appends to `released` whoever may go on now.
  /// @pre everything that `take_ready` gave has been folded
  void publish(std::vector<worker_id>& released) {
    folded_below_ = taken_below_;
    published_ = std::max(published_, progress_.floor());
    waiting_.release(published_, released);
  }

  // ---- reads

  /// Whether the read may go on now; if not it waits, and `publish` will name its worker.
  /// A worker has at most one request waiting.
  [[nodiscard]] bool admit(read_header const& read) {
    clock_index const need = admission_.need(read.clock, read.bound);
    if (need <= published_) return true;
    waiting_.enter(read.from.worker, read.clock, need);
    return false;
  }

  [[nodiscard]] refusal check(sender const& from) const noexcept {
    if (from.stage != stage_) return refusal::stage;
    if (from.worker.index() >= members_.size()) return refusal::stranger;
    member const& m = members_[from.worker.index()];
    if (m.state == standing::gone || m.state == standing::frozen) return refusal::stranger;
    return m.incarnation == from.incarnation ? refusal::none : refusal::incarnation;
  }

  [[nodiscard]] read_stamp stamp_for(worker_id reader) const noexcept {
    clock_index const own = members_[reader.index()].received;
    return {.server_clock = published_,
            .included = Visibility::holds_back ? std::min(own, folded_below_) : own};
  }

  // ---- membership

  /// Whether an order of the coordinator is to be carried out, once and in its turn.
  [[nodiscard]] refusal accept(membership_order const& o) noexcept {
    refusal const r = check(o);
    if (r == refusal::none) epoch_ = o.epoch;
    else ++counters_.refused;
    return r;
  }

  /// Registers a joiner at this shard's own `c_min`, which holds `c_min` there; returns that clock.
  clock_index enlist(worker_id w, incarnation_id incarnation) {
    if (w.index() >= members_.size()) members_.resize(w.index() + 1);
    clock_index const at = progress_.floor();
    if (progress_.contains(w)) progress_.leave(w);
    progress_.join(w, at);
    members_[w.index()] = {standing::live, incarnation, at, at, {}};
    return at;
  }

  /// Sets the joiner's clock to what the coordinator found to be the greatest of the shards' clocks.
  void start(worker_id w, clock_index at) {
    member& m = members_[w.index()];
    if (m.state != standing::live) return;
    RUBATO_ASSERT(at >= m.received);
    m.joined = m.received = at;
    progress_.advance(w, at);
  }

  /// Takes no more commits of a lost worker; returns how far its commits have been received.
  clock_index freeze(worker_id w) {
    member& m = members_[w.index()];
    if (m.state == standing::live) m.state = standing::frozen;
    return m.received;
  }

  /// The worker leaves with its commits below `cut`. A worker that left by itself may still have
  /// some of them under way: then it stays until they have come.
  void drop(worker_id w, clock_index cut) {
    if (w.index() >= members_.size()) return;
    member& m = members_[w.index()];
    if (m.state == standing::gone) return;
    m.cut = cut;
    if (m.state == standing::live && m.received < cut) {
      m.state = standing::leaving;
      return;
    }
    if (m.received > cut) {
      std::size_t const dropped = log_.drop(w, cut);
      // A joiner that was lost before it began may have a cut below its first clock here.
      auto const beyond =
          static_cast<std::uint64_t>(distance(std::max(cut, m.joined), m.received));
      counters_.dropped += dropped;
      counters_.partly_folded += beyond - dropped;
    }
    retire(w);
  }

  // ---- for reports and observers

  [[nodiscard]] progress const& workers() const noexcept { return progress_; }
  [[nodiscard]] clock_index published() const noexcept { return published_; }
  [[nodiscard]] waiting_room const& waiting() const noexcept { return waiting_; }
  [[nodiscard]] std::size_t held_back() const noexcept { return log_.size(); }
  [[nodiscard]] shard_counters const& counters() const noexcept { return counters_; }
  [[nodiscard]] stage_id stage() const noexcept { return stage_; }
  [[nodiscard]] Admission const& admission() const noexcept { return admission_; }

 private:
  enum class standing : std::uint8_t { gone, live, frozen, leaving };
  struct member {
    standing state = standing::gone;
    incarnation_id incarnation{};
    clock_index joined{};    ///< where its commits begin
    clock_index received{};  ///< all stamps below it have been received
    clock_index cut{};       ///< where a leaving worker's commits end
  };

  [[nodiscard]] refusal check(membership_order const& o) const noexcept {
    if (o.stage != stage_) return refusal::stage;
    if (o.epoch <= epoch_) return refusal::order;
    if (o.what == membership_order::kind::enlist) return refusal::none;
    if (o.worker.index() >= members_.size()) return refusal::stranger;
    return members_[o.worker.index()].incarnation == o.incarnation ? refusal::none
                                                                   : refusal::incarnation;
  }

  void retire(worker_id w) {
    members_[w.index()].state = standing::gone;
    waiting_.remove(w);
    progress_.leave(w);
  }

  [[no_unique_address]] Admission admission_;
  [[no_unique_address]] Visibility visibility_;
  stage_id stage_{};
  epoch_id epoch_{};  ///< the last change of membership carried out
  progress progress_;
  std::vector<member> members_;
  waiting_room waiting_;
  commit_log<Message> log_;
  clock_index taken_below_{0};   ///< held-back commits with stamps below it were given to be folded
  clock_index folded_below_{0};  ///< and with stamps below this one they have been
  clock_index published_{0};     ///< the `c_min` that readers go by
  shard_counters counters_;
};

}  // namespace rubato
