// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/progress.hpp"
#include "rubato/server/commit_cut.hpp"
#include "rubato/server/waiting_room.hpp"

namespace rubato {

/// The coordinator's half of partition synchronization (rules §4, 000 §6): gathers the servers'
/// progress, grants reads a cut that all servers have reached, and tells the servers below which
/// cut nobody reads any more. A state machine without I/O. Not synchronized.
///
/// A server's report costs O(servers + log workers); a grant O(workers).
class stable_cuts {
 public:
  explicit stable_cuts(std::uint32_t servers) : servers_(servers) {}

  void begin_stage() { *this = stable_cuts(servers_); }

  // ---- membership, as the coordinator orders it

  /// Held at the present `c_min` until all servers have registered the joiner.
  void join(worker_id w) {
    if (w.index() >= members_.size()) members_.resize(w.index() + 1);
    if (progress_.contains(w)) progress_.leave(w);  // an earlier life
    clock_index const at = std::max(progress_.floor(), members_[w.index()].stable);
    members_[w.index()] = {std::vector<clock_index>(servers_, at), at, std::nullopt};
    progress_.join(w, at);
    current_.reset();
  }
  void start(worker_id w, clock_index at) {
    member& m = members_[w.index()];
    std::ranges::fill(m.received, at);
    advance(w, at);
  }
  /// The worker has left, or was given up, with its commits below `cut`: it counts until all
  /// servers have received them.
  void leave(worker_id w, clock_index cut) {
    members_[w.index()].cut = cut;
    forget(w);
    settle(w);
  }
  /// The worker was given up: all servers have its commits below `cut`, and drop the others.
  void lose(worker_id w, clock_index cut) {
    std::ranges::fill(members_[w.index()].received, cut);
    advance(w, cut);
    leave(w, cut);
  }
  /// Whatever it was reading is over, and it waits for nothing.
  void forget(worker_id w) {
    waiting_.remove(w);
    release(w);
  }

  // ---- what servers report

  /// Server `s` has received all commits of this worker with stamps below `clock`.
  void report(server_id s, worker_id w, clock_index clock) {
    if (w.index() >= members_.size() || !progress_.contains(w)) return;
    member& m = members_[w.index()];
    m.received[s.index()] = std::max(m.received[s.index()], clock);
    advance(w, std::ranges::min(m.received));
    settle(w);
  }

  // ---- reads

  /// Whether a read with this need may go on; if not its worker waits, and `take_released` will
  /// name it. A worker has at most one request waiting.
  [[nodiscard]] bool admit(worker_id w, clock_index clock, clock_index need) {
    if (need <= c_min()) return true;
    waiting_.enter(w, clock, need);
    return false;
  }

  /// The cut for a worker that has been let in. With `pull` the servers keep it readable until
  /// `release`.
  [[nodiscard]] shared_cut grant(worker_id w, bool pull) {
    if (!current_) current_ = make_current();
    if (pull) {
      release(w);
      under_way_.emplace_back(w, current_);
    }
    return current_;
  }

  /// The worker has its answers.
  void release(worker_id w) {
    auto const at = std::ranges::find(under_way_, w, &std::pair<worker_id, shared_cut>::first);
    if (at != under_way_.end()) under_way_.erase(at);
  }

  // ---- what follows

  /// Workers whose requests may go on now.
  [[nodiscard]] std::vector<worker_id> take_released() { return std::exchange(released_, {}); }

  /// The low-water mark, if it is time to tell the servers: cuts only grow, so it is that of the
  /// oldest read under way. Sent once for as many commits as there are workers, which keeps both
  /// the traffic per commit and the servers' logs small.
  [[nodiscard]] shared_cut take_mark() {
    // With the last worker gone, all that is left is to be folded.
    if (advanced_ < progress_.live()) return nullptr;
    if (under_way_.empty() && !current_) current_ = make_current();
    shared_cut const next = under_way_.empty() ? current_ : under_way_.front().second;
    if (next == mark_) return nullptr;
    mark_ = next;
    advanced_ = 0;
    return mark_;
  }

  // ---- for reports and observers

  [[nodiscard]] clock_index c_min() const noexcept { return progress_.c_min(); }
  [[nodiscard]] waiting_room const& waiting() const noexcept { return waiting_; }
  [[nodiscard]] progress const& workers() const noexcept { return progress_; }
  [[nodiscard]] std::size_t under_way() const noexcept { return under_way_.size(); }

 private:
  struct member {
    std::vector<clock_index> received;  // by server
    clock_index stable{};               // the least of them
    std::optional<clock_index> cut;     // of one that leaves
  };

  void advance(worker_id w, clock_index to) {
    member& m = members_[w.index()];
    if (m.cut) to = std::min(to, *m.cut);
    if (to <= m.stable) return;
    advanced_ += static_cast<std::size_t>(distance(m.stable, to));
    m.stable = to;
    current_.reset();
    if (!progress_.contains(w)) return;
    progress_.advance(w, to);
    waiting_.release(c_min(), released_);
  }

  /// Lets a leaver go whose commits have all arrived.
  void settle(worker_id w) {
    member const& m = members_[w.index()];
    if (!m.cut || m.stable < *m.cut || !progress_.contains(w)) return;
    progress_.leave(w);
    current_.reset();
    waiting_.release(c_min(), released_);
  }

  [[nodiscard]] shared_cut make_current() const {
    std::vector<clock_index> below;
    below.reserve(members_.size());
    for (member const& m : members_) below.push_back(m.stable);
    return std::make_shared<commit_cut const>(std::move(below), progress_.floor());
  }

  std::uint32_t servers_;
  std::vector<member> members_;
  progress progress_;
  waiting_room waiting_;
  std::vector<worker_id> released_;
  std::list<std::pair<worker_id, shared_cut>> under_way_;  // oldest first
  shared_cut current_;
  shared_cut mark_;
  std::size_t advanced_ = 0;  // clocks that cuts have gained since the last mark
};

}  // namespace rubato
