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
#include "rubato/server/worker_versions.hpp"

namespace rubato {

/// What a shard counts of itself.
struct shard_counters {
  std::uint64_t commits = 0;        ///< received and counted
  std::uint64_t refused = 0;        ///< messages of another stage, incarnation or clock
  std::uint64_t dropped = 0;        ///< commits of a lost worker, dropped before they were folded
  std::uint64_t partly_folded = 0;  ///< commits of a lost worker, folded here but not on all shards

  shard_counters& operator+=(shard_counters const& o) noexcept {
    commits += o.commits;
    refused += o.refused;
    dropped += o.dropped;
    partly_folded += o.partly_folded;
    return *this;
  }
};

/// The half of a shard that knows who is where: progress, membership, versions, waiting requests
/// and the log of held-back commits. A state machine without I/O, locks or parameters; `Message` is
/// what a commit carries through the log, `Versioned` says that a merge keeps versions.
///
/// A commit passes through it in steps, because the folding in between is done by whoever drives
/// the shard: `accept`, then either fold at once and `complete`, or `hold` and fold what
/// `take_ready` gives. Readers are let in by what `publish` has made known, so only after the
/// folds. Each step costs O(log workers).
template <admission_policy Admission, visibility_policy Visibility, class Message,
          bool Versioned = false>
class shard_control {
 public:
  /// Reads name the cut that they are to reflect, and commits above the least one stay in the log.
  static constexpr bool synchronized = synchronized_visibility<Visibility>;
  /// Commits go through the log, and are folded by one thread at a time.
  static constexpr bool serial = Visibility::holds_back || Versioned;

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
    versions_ = {};
    newest_folded_ = clock_index{0};
    mark_.clear();
    mark_c_min_ = clock_index{0};
    marked_ = false;
    members_.clear();
    waiting_.clear();
    taken_below_ = clock_index{0};
    folded_below_ = clock_index{0};
    published_ = clock_index{0};
    counters_ = {};
  }

  // ---- commits

  /// Whether a commit may be applied, exactly once and in order.
  [[nodiscard]] refusal accept(sender const& from, clock_index stamp, version_index version = {}) {
    refusal const r = check(from, stamp, version);
    if (r == refusal::none) members_[from.worker.index()].received = stamp.next();
    else ++counters_.refused;
    return r;
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
    version_index version{};
    if constexpr (Versioned) versions_.receive(from.worker, version = message.version);
    commit_info const at_arrival = info(from, stamp, version);
    log_.add(stamp, from.worker, {at_arrival, std::move(message)});
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
    std::vector<fold_group> groups;
    for (auto& [stamp, commits] : take_from_log()) {
      bool const together = one_step_per_clock();
      for (auto& [worker, waiting] : commits) {
        if (groups.empty() || !together || &commits.begin()->second == &waiting)
          groups.emplace_back();
        commit_info i = waiting.info;
        if constexpr (!synchronized)  // where reads overlay the log, a commit's worth is settled
          i = info({.worker = worker, .incarnation = {}, .stage = {}}, stamp, waiting.info.version);
        if (together) i.workers = static_cast<std::uint32_t>(commits.size());
        groups.back().commits.emplace_back(i, std::move(waiting.message));
      }
    }
    return groups;
  }

  /// One of the groups that `take_ready` gave has been folded.
  void note_folded(fold_group const& group) {
    for (auto const& [i, message] : group.commits) {
      newest_folded_ = std::max(newest_folded_, i.stamp.next());
      if constexpr (Versioned) versions_.fold(i.from, i.version);
    }
  }

  /// Under the barrier all commits of a stamp make one step of a merge with velocity, and M is
  /// their number. Strict visibility with s = 0 is the barrier, however it is spelled.
  [[nodiscard]] bool one_step_per_clock() const noexcept {
    return Visibility::holds_back && !synchronized && admission_.bound() == staleness{0};
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

  /// Of a commit: whose, whether it comes next, and whether its version is one of its worker's.
  [[nodiscard]] refusal check(sender const& from, clock_index stamp,
                              version_index version) const noexcept {
    if (refusal const r = check(from); r != refusal::none) return r;
    if (stamp != members_[from.worker.index()].received) return refusal::order;
    if (Versioned && !versions_.accepts(from.worker, version)) return refusal::version;
    return refusal::none;
  }

  void count_refused() noexcept { ++counters_.refused; }
  void count_partly_folded() noexcept { ++counters_.partly_folded; }

  [[nodiscard]] refusal check(sender const& from) const noexcept {
    if (from.stage != stage_) return refusal::stage;
    if (from.worker.index() >= members_.size()) return refusal::stranger;
    member const& m = members_[from.worker.index()];
    if (m.state == standing::gone || m.state == standing::frozen) return refusal::stranger;
    return m.incarnation == from.incarnation ? refusal::none : refusal::incarnation;
  }

  [[nodiscard]] read_stamp stamp_for(worker_id reader) const noexcept {
    clock_index const own = members_[reader.index()].received;
    clock_index const below = Visibility::holds_back ? folded_below_ : clock_index::highest();
    return {.server_clock = published_, .included = std::min(own, below), .folded_below = below};
  }
  [[nodiscard]] read_stamp stamp_for(worker_id reader, commit_cut const& cut) const noexcept {
    return {.server_clock = cut.c_min(), .included = cut.of(reader)};
  }

  /// Forgets a read that waits.
  void withdraw(worker_id reader) { waiting_.remove(reader); }

  // ---- synchronized reads

  /// Whether this shard can answer from exactly this cut: it has received all of it, and folded
  /// nothing beyond. A transport sees to it that a joiner's `start` is here before a cut that goes
  /// by it.
  [[nodiscard]] bool holds(commit_cut const& cut) const noexcept {
    for (std::size_t w = 0; w < members_.size(); ++w) {
      clock_index const below = cut.of(worker_id{static_cast<std::uint32_t>(w)});
      if (below > members_[w].received || below < mark_of(w)) return false;
    }
    return true;
  }

  /// Calls `f(info, message)` for the commits of a cut that are not folded yet, in order.
  template <class F>
  void for_each_above(commit_cut const& cut, F f) const {
    log_.for_each([&](clock_index stamp, worker_id w, held const& h) {
      if (cut.includes(w, stamp)) f(h.info, h.message);
    });
  }

  /// The same for all commits that are held back.
  template <class F>
  void for_each_held(F f) const {
    log_.for_each([&](clock_index, worker_id, held const& h) { f(h.info, h.message); });
  }

  /// No read asks for less than this cut any more. Cuts grow; one that comes late changes nothing.
  void advance(commit_cut const& mark) {
    if (mark_.size() < mark.size()) mark_.resize(mark.size(), clock_index::lowest());
    for (std::size_t w = 0; w < mark.size(); ++w)
      mark_[w] = std::max(mark_[w], mark.of(worker_id{static_cast<std::uint32_t>(w)}));
    mark_c_min_ = std::max(mark_c_min_, mark.c_min());
    marked_ = true;
  }

  /// Nobody reads any more: all that has been received may be folded.
  void advance_to_all() {
    mark_.resize(std::max(mark_.size(), members_.size()), clock_index::lowest());
    for (std::size_t w = 0; w < members_.size(); ++w)
      mark_[w] = std::max(mark_[w], members_[w].received);
    marked_ = true;
  }

  // ---- versions

  /// What `version_after` is told of a read of all that is folded.
  [[nodiscard]] version_read reading(worker_id reader) const noexcept {
    return {.own = versions_.of(reader), .top = versions_.top(), .c_max = newest_folded_};
  }
  void raise_version(worker_id w, version_index to) { versions_.raise(w, to); }
  /// Which versions are still of use, by what is folded.
  [[nodiscard]] version_window window() const noexcept {
    clock_index const folded_c_min = synchronized ? mark_c_min_ : progress_.floor();
    return {.least = versions_.least(), .c_min = folded_c_min, .c_max = newest_folded_};
  }
  [[nodiscard]] clock_index newest_folded() const noexcept { return newest_folded_; }

  // ---- membership

  /// Whether an order of the coordinator is to be carried out, once and in its turn.
  [[nodiscard]] refusal accept(membership_order const& o) noexcept {
    refusal const r = check(o);
    if (r == refusal::none) epoch_ = o.epoch;
    else ++counters_.refused;
    return r;
  }

  /// Registers a joiner at this shard's own `c_min`, which holds `c_min` there; returns that clock. Who
  /// was here before and was ahead begins after the commits of that life, which count.
  clock_index enlist(worker_id w, incarnation_id incarnation) {
    if (w.index() >= members_.size()) members_.resize(w.index() + 1);
    clock_index const at = std::max(progress_.floor(), members_[w.index()].cut);
    if (progress_.contains(w)) progress_.leave(w);
    progress_.join(w, at);
    members_[w.index()] = {standing::live, incarnation, at, at, {}};
    if constexpr (Versioned) versions_.join(w, {});  // the merge says how far it is
    return at;
  }

  /// Sets the joiner's clock to the greatest of the shards' clocks, as the coordinator found.
  void start(worker_id w, clock_index at, version_index version = {}) {
    member& m = members_[w.index()];
    if (m.state != standing::live) return;
    RUBATO_ASSERT(at >= m.received);
    m.joined = m.received = at;
    progress_.advance(w, at);
    if constexpr (Versioned) versions_.raise(w, version);
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
    // A joiner that was lost before it began may have a cut below its first clock here.
    m.cut = std::max(cut, m.joined);
    if (m.state == standing::live && m.received < m.cut) {
      m.state = standing::leaving;
      return;
    }
    if (m.received > m.cut) {
      std::size_t const dropped = log_.drop(w, m.cut);
      if constexpr (Versioned) versions_.drop(w, dropped);
      auto const beyond = static_cast<std::uint64_t>(distance(m.cut, m.received));
      counters_.dropped += dropped;
      counters_.partly_folded += beyond - dropped;
    }
    retire(w);
  }

  /// A worker that left by itself was lost before all of its commits had come: those that have
  /// count. Says whether there was such a worker.
  bool abandon(worker_id w) {
    if (w.index() >= members_.size() || members_[w.index()].state != standing::leaving) return false;
    retire(w);
    return true;
  }

  // ---- for reports and observers

  [[nodiscard]] progress const& workers() const noexcept { return progress_; }
  [[nodiscard]] clock_index published() const noexcept { return published_; }
  [[nodiscard]] waiting_room const& waiting() const noexcept { return waiting_; }
  [[nodiscard]] std::size_t held_back() const noexcept { return log_.size(); }
  [[nodiscard]] shard_counters const& counters() const noexcept { return counters_; }
  [[nodiscard]] stage_id stage() const noexcept { return stage_; }
  [[nodiscard]] worker_versions const& versions() const noexcept { return versions_; }
  [[nodiscard]] clock_index received(worker_id w) const noexcept {
    return members_[w.index()].received;
  }
  [[nodiscard]] Admission const& admission() const noexcept { return admission_; }

 private:
  struct held {
    commit_info info;  ///< as it was when the commit arrived
    Message message;
  };
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
    if constexpr (Versioned) versions_.leave(w);
  }

  using log_type = commit_log<held>;

  [[nodiscard]] std::vector<std::pair<clock_index, typename log_type::group>> take_from_log() {
    if constexpr (synchronized) return take_below_mark();
    auto const horizon_at = [this](clock_index c_min) {
      return visibility_.horizon({.c_min = c_min, .bound = admission_.bound()});
    };
    auto taken = log_.take_below(horizon_at(progress_.c_min()));
    // By the floor: when all have left the horizon is "never", which is not so for those who join.
    taken_below_ = std::max(taken_below_, horizon_at(progress_.floor()));
    return taken;
  }

  [[nodiscard]] std::vector<std::pair<clock_index, typename log_type::group>> take_below_mark() {
    if (!std::exchange(marked_, false)) return {};
    return log_.take_if(
        [this](clock_index stamp, worker_id w) { return stamp < mark_of(w.index()); });
  }

  /// All stamps below it are folded, or will be before the next read.
  [[nodiscard]] clock_index mark_of(std::size_t worker) const noexcept {
    return worker < mark_.size() ? mark_[worker] : clock_index::lowest();
  }

  [[no_unique_address]] Admission admission_;
  [[no_unique_address]] Visibility visibility_;
  stage_id stage_{};
  epoch_id epoch_{};  ///< the last change of membership carried out
  progress progress_;
  std::vector<member> members_;
  waiting_room waiting_;
  log_type log_;
  worker_versions versions_;
  std::vector<clock_index> mark_;  ///< by worker: no read asks for less
  clock_index mark_c_min_{0};
  bool marked_ = false;            ///< there is a new mark, up to which nothing is folded yet
  clock_index newest_folded_{0};         ///< one above the greatest stamp that is folded
  clock_index taken_below_{0};   ///< held-back commits with stamps below it were given to be folded
  clock_index folded_below_{0};  ///< and with stamps below this one they have been
  clock_index published_{0};     ///< the `c_min` that readers go by
  shard_counters counters_;
};

}  // namespace rubato
