// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <list>
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

  /// Held at the present `c_min`, which is returned, until all servers have registered the joiner. It may be above
  /// theirs: the coordinator hears of a loss before they let the lost one go.
  clock_index join(worker_id w);
  void start(worker_id w, clock_index at);
  /// The worker has left, or was given up, with its commits below `cut`: it counts until all
  /// servers have received them.
  void leave(worker_id w, clock_index cut);
  /// The worker was given up: all servers have its commits below `cut`, and drop the others.
  void lose(worker_id w, clock_index cut);
  /// Whatever it was reading is over, and it waits for nothing.
  void forget(worker_id w);

  // ---- what servers report

  /// Server `s` has received all commits of this worker with stamps below `clock`.
  void report(server_id s, worker_id w, clock_index clock);

  // ---- reads

  /// Whether a read with this need may go on; if not its worker waits, and `take_released` will
  /// name it. A worker has at most one request waiting.
  [[nodiscard]] bool admit(worker_id w, clock_index clock, clock_index need);

  /// The cut for a worker that has been let in. With `pull` the servers keep it readable until
  /// `release`.
  [[nodiscard]] shared_cut grant(worker_id w, bool pull);

  /// The worker has its answers.
  void release(worker_id w);

  // ---- what follows

  /// Workers whose requests may go on now.
  [[nodiscard]] std::vector<worker_id> take_released() { return std::exchange(released_, {}); }

  /// The low-water mark, if it is time to tell the servers: cuts only grow, so it is that of the
  /// oldest read under way. Sent once for as many commits as there are workers, which keeps both
  /// the traffic per commit and the servers' logs small.
  [[nodiscard]] shared_cut take_mark();

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

  void advance(worker_id w, clock_index to);
  /// Lets a leaver go whose commits have all arrived.
  void settle(worker_id w);
  [[nodiscard]] shared_cut make_current() const;

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
