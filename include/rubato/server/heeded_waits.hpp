// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/progress.hpp"
#include "rubato/protocol/admission_rule.hpp"
#include "rubato/server/waiting_room.hpp"

namespace rubato {

/// Of the reads that wait for some of the other workers: for how many of these each still waits.
///
/// Their tickets are in the waiting room, too, as of those that wait for all. A read costs O(workers) when it comes and
/// when it is let in, a commit O(1) for each read that waits for its worker. Not synchronized.
class heeded_waits {
 public:
  /// Whether all that the reader heeds are at `need`; if not, it waits for those that are not.
  [[nodiscard]] bool admit(admission_rule const& admission, progress const& clocks, worker_id reader, clock_index clock,
                           clock_index need);
  /// The worker begins at this clock: who waits in the room and heeds it waits for it, too, as a barrier does.
  void join(admission_rule const& admission, waiting_room const& room, worker_id w, clock_index at);
  /// The worker is at this clock now.
  void advance(worker_id w, clock_index to);
  /// Nobody waits for the worker any more.
  void leave(worker_id w) { advance(w, clock_index::highest()); }
  /// The reader does not wait any more.
  void remove(worker_id reader);
  /// Appends the readers that wait for nobody any more to `released`, and takes their tickets out of the room.
  void release(waiting_room& room, std::vector<worker_id>& released);

 private:
  void make_room(std::size_t workers);

  struct claim {
    worker_id reader;
    clock_index need;
  };

  std::vector<std::vector<claim>> awaited_by_;  ///< by worker
  std::vector<std::uint32_t> awaits_;           ///< by reader, how many
  std::vector<worker_id> free_;                 ///< wait for nobody any more, and have not been told
};

}  // namespace rubato
