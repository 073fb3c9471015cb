// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rubato/core/progress.hpp"
#include "rubato/metrics/shard_counters.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/server/clock_credits.hpp"
#include "rubato/server/commit_log.hpp"
#include "rubato/server/commit_rounds.hpp"
#include "rubato/server/heeded_waits.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/server/unseen_changes.hpp"
#include "rubato/server/waiting_room.hpp"
#include "rubato/server/worker_versions.hpp"

namespace rubato {

/// The half of a shard that knows who is where: progress, membership, versions, waiting requests
/// and the log of held-back commits. A state machine without I/O, locks or parameters.
///
/// A commit passes through it in steps, because the folding in between is done by whoever drives
/// the shard: `accept`, then either fold at once and `complete`, or `hold` and fold what
/// `take_ready` gives. Readers are let in by what `publish` has made known, so only after the
/// folds. Each step costs O(log workers); where visibility goes by rounds and admission samples, O(workers) a round,
/// and where it waits for some workers only, O(workers) a read that waits.
class shard_control {
 public:
  /// Commits that are folded in one step: those of a stamp under the barrier, those of a round, else one alone.
  struct fold_group {
    std::vector<held_commit> commits;
  };

  /// @param versioned some merge keeps versions
  explicit shard_control(admission_rule admission, visibility_rule visibility, bool versioned = false)
      : admission_(std::move(admission)), visibility_(std::move(visibility)), versioned_(versioned) {}

  /// Starts all clocks anew. What a stage that was ended early left held back is dropped.
  void begin_stage(stage_id stage);
  /// The same, under another protocol: the consistency controller's reset (004 §5.2).
  void begin_stage(stage_id stage, admission_rule admission, visibility_rule visibility, bool versioned);

  /// Reads name the cut that they are to reflect, and commits above the least one stay in the log.
  [[nodiscard]] bool synchronized() const noexcept { return visibility_.synchronized(); }
  /// Commits go through the log, and are folded by one thread at a time.
  [[nodiscard]] bool serial() const noexcept { return visibility_.holds_back() || versioned_; }
  [[nodiscard]] bool holds_back() const noexcept { return visibility_.holds_back(); }
  [[nodiscard]] bool versioned() const noexcept { return versioned_; }
  /// Commits are folded by rounds, and answers say which one is under way.
  [[nodiscard]] bool by_rounds() const noexcept { return visibility_.rounds().has_value(); }
  /// Readers wait by what they have changed: a read that comes may let others in, which `publish` names.
  [[nodiscard]] bool limits() const noexcept { return admission_.limits(); }

  // ---- commits

  /// Whether a commit may be applied, exactly once and in order.
  [[nodiscard]] refusal accept(sender const& from, clock_index stamp, version_index of = {});
  /// What `accept` would say, without accepting: of a commit, whose it is, whether it comes next, and
  /// whether its version is one of its worker's.
  [[nodiscard]] refusal check(sender const& from, clock_index stamp, version_index version) const noexcept;
  /// Whether this sender may say anything here.
  [[nodiscard]] refusal check(sender const& from) const noexcept;
  void count_refused() noexcept { ++counters_.refused; }
  void count_partly_folded() noexcept { ++counters_.partly_folded; }

  /// What the merges are told about a commit that is folded as it arrives. Who has ended by itself in this stage
  /// still counts in M: it has made its part of the updates, and the weights of the others' are not to rise at
  /// the end of a run. The lost do not. When all were lost, what was held back is still folded: by its weight for
  /// one worker, at the clock left at.
  [[nodiscard]] commit_info info(worker_id from, clock_index stamp, version_index version) const noexcept;

  /// When a commit has come that was accepted.
  void note_arrival(worker_id from, time_point at) {
    if (admission_.extends()) credits_.note(from, at);
  }
  /// Keeps a commit until visibility lets it be folded.
  void hold(commit_message message);
  /// The commit has been folded or held: the worker's clock moves on.
  /// @param change by which it has moved an element at most, for an admission that limits
  void complete(sender const& from, clock_index stamp, double change = 0);

  /// The held-back commits that may be folded now, in the order in which to fold them. The caller
  /// folds them all before it calls `publish`.
  [[nodiscard]] std::vector<fold_group> take_ready();
  /// One of the groups that `take_ready` gave has been folded.
  void note_folded(fold_group const& group);

  /// Under the barrier all commits of a stamp make one step of a merge with velocity, and M is
  /// their number. Strict visibility with s = 0 is the barrier, however it is spelled.
  [[nodiscard]] bool one_step_per_clock() const noexcept {
    return holds_back() && !synchronized() && admission_.bound() == staleness{0};
  }

  /// Makes the progress known to readers, and appends to `released` whoever may go on now.
  /// @pre everything that `take_ready` gave has been folded
  void publish(std::vector<worker_id>& released);

  // ---- reads

  /// The worker is answered with rows: its next commit is computed at what is folded now, or was before; if it renews
  /// copies, the one after that.
  void note_read(read_header const& read) noexcept;

  /// Whether the read may go on now; if not it waits, and `publish` will name its worker.
  /// A worker has at most one request waiting.
  [[nodiscard]] bool admit(read_header const& read);
  [[nodiscard]] read_stamp stamp_for(worker_id reader) const noexcept {
    clock_index const own = members_[reader.index()].received;
    clock_index const below = holds_back() && !by_rounds() ? folded_below_ : clock_index::highest();
    clock_index const included = std::min(own, below);
    return {.server_clock = published_, .included = included, .version = rounds_told_, .folded_below = below};
  }
  [[nodiscard]] read_stamp stamp_for(worker_id reader, commit_cut const& cut) const noexcept {
    return {.server_clock = cut.c_min(), .included = cut.of(reader)};
  }
  /// Forgets a read that waits.
  void withdraw(worker_id reader);

  // ---- synchronized reads

  /// Whether this shard can answer from exactly this cut: it has received all of it, and folded
  /// nothing beyond. A transport sees to it that a joiner's `start` is here before a cut that goes
  /// by it.
  [[nodiscard]] bool holds(commit_cut const& cut) const noexcept;

  /// Calls `f(commit)` for all commits that are held back, in order.
  template <class F>
  void for_each_held(F f) const {
    log_.for_each(f);
    rounds_.for_each(f);
  }

  /// No read asks for less than this cut any more. Cuts grow; one that comes late changes nothing.
  void advance(commit_cut const& mark);
  /// Nobody reads any more: all that has been received may be folded.
  void advance_to_all();

  // ---- versions

  /// What `version_after` is told of a read of all that is folded.
  [[nodiscard]] version_read reading(worker_id reader) const noexcept {
    return {.own = versions_.of(reader), .top = versions_.top(), .c_max = newest_folded_};
  }
  void raise_version(worker_id w, version_index to) { versions_.raise(w, to); }
  /// Which versions are still of use, by what is folded.
  [[nodiscard]] version_window window() const noexcept;
  [[nodiscard]] clock_index newest_folded() const noexcept { return newest_folded_; }

  // ---- membership

  /// Whether an order of the coordinator is to be carried out, once and in its turn.
  [[nodiscard]] refusal accept(membership_order const& o) noexcept;
  /// Registers a joiner at this shard's own `c_min`, which holds `c_min` there; returns that clock. Who
  /// was here before and was ahead begins after the commits of that life, which count.
  clock_index enlist(worker_id w, incarnation_id incarnation);
  /// Sets the joiner's clock to the greatest of the shards' clocks, as the coordinator found.
  void start(worker_id w, clock_index at, version_index first = {});
  /// Takes no more commits of a lost worker; returns how far its commits have been received.
  clock_index freeze(worker_id w);
  /// The worker leaves with its commits below `cut`. A worker that left by itself may still have
  /// some of them under way: then it stays until they have come.
  void drop(worker_id w, clock_index cut);
  /// A worker that left by itself was lost before all of its commits had come: those that have
  /// count. Says whether there was such a worker.
  bool abandon(worker_id w);

  // ---- for reports and observers

  [[nodiscard]] progress const& workers() const noexcept { return progress_; }
  [[nodiscard]] clock_index published() const noexcept { return published_; }
  [[nodiscard]] waiting_room const& waiting() const noexcept { return waiting_; }
  [[nodiscard]] std::size_t held_back() const noexcept { return log_.size() + rounds_.size(); }
  /// The round under way, as far as readers know.
  [[nodiscard]] version_index round() const noexcept { return rounds_told_; }
  [[nodiscard]] shard_counters const& counters() const noexcept { return counters_; }
  [[nodiscard]] stage_id stage() const noexcept { return stage_; }
  [[nodiscard]] worker_versions const& versions() const noexcept { return versions_; }
  [[nodiscard]] clock_index received(worker_id w) const noexcept {
    return members_[w.index()].received;
  }
  [[nodiscard]] admission_rule const& admission() const noexcept { return admission_; }

 private:
  enum class standing : std::uint8_t { gone, live, frozen, leaving };
  struct member {
    standing state = standing::gone;
    incarnation_id incarnation{};
    clock_index joined{};    ///< where its commits begin
    clock_index received{};  ///< all stamps below it have been received
    clock_index cut{};       ///< where a leaving worker's commits end
    bool returned = false;   ///< gone because its body has returned
    bool has_read = false;   ///< since its last commit
    std::uint64_t read_at = 0;  ///< how many folds there were when it first read after its last commit
    std::optional<std::uint64_t> renewed_at{};  ///< and when it asked for what it reads after its next commit
  };

  [[nodiscard]] refusal check(membership_order const& o) const noexcept;
  static void take_renewal(member& m) noexcept;
  void retire(worker_id w);
  [[nodiscard]] clock_index horizon_at(clock_index c_min) const noexcept {
    return std::max(c_min, visibility_.horizon({.c_min = c_min, .bound = admission_.bound()}));
  }
  // Of rounds.
  static constexpr std::int64_t rounds_ahead_max = 1 << 16;
  void enter_round(commit_message&& message);
  [[nodiscard]] bool round_is_over() const noexcept;
  [[nodiscard]] bool awaits(worker_id w) const noexcept;
  void count_awaited() noexcept;
  [[nodiscard]] std::vector<fold_group> take_rounds();
  [[nodiscard]] clock_index needed_round(worker_id reader) const noexcept;
  [[nodiscard]] bool admit_by_value(read_header const& read);

  [[nodiscard]] commit_log::groups take_from_log();
  [[nodiscard]] commit_log::groups take_below_mark();
  /// All stamps below it are folded, or will be before the next read.
  [[nodiscard]] clock_index mark_of(std::size_t worker) const noexcept {
    return worker < mark_.size() ? mark_[worker] : clock_index::lowest();
  }

  admission_rule admission_;
  visibility_rule visibility_;
  bool versioned_;
  stage_id stage_{};
  epoch_id epoch_{};  ///< the last change of membership carried out
  progress progress_;
  std::vector<member> members_;
  std::size_t returned_ = 0;  ///< workers that are gone because their bodies have returned
  waiting_room waiting_;
  clock_credits credits_;          ///< where admission extends
  unseen_changes unseen_;          ///< where it limits
  heeded_waits heeded_;            ///< where admission waits for some workers only
  commit_log log_;
  worker_versions versions_;
  std::vector<clock_index> mark_;  ///< by worker: no read asks for less
  clock_index mark_c_min_{0};
  bool marked_ = false;            ///< there is a new mark, up to which nothing is folded yet
  clock_index newest_folded_{0};   ///< one above the greatest stamp that is folded
  clock_index taken_below_{0};     ///< held-back commits with stamps below it were given to be folded
  clock_index folded_below_{0};    ///< and with stamps below this one they have been
  clock_index published_{0};       ///< the `c_min` that readers go by
  commit_rounds rounds_;
  progress unmade_;                ///< by worker: the first round that it has made no commit for
  std::size_t awaited_ = 0;        ///< where admission samples: workers that the round under way waits for
  version_index rounds_told_{0};   ///< rounds folded, as readers know
  std::uint64_t folds_ = 0;        ///< steps made
  shard_counters counters_;
};

}  // namespace rubato
