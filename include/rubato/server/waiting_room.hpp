// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"

namespace rubato {

/// The requests that wait for the slowest worker: a heap by need, so that whoever is released is
/// found without looking at the others. O(log waiting) per request. Not synchronized.
class waiting_room {
 public:
  struct ticket {
    clock_index need;        ///< released once `c_min` is at least this
    std::uint64_t sequence;  ///< first come, first released, among equal needs
    worker_id worker;        ///< a worker has at most one request here
    clock_index clock;       ///< the worker's clock, for reports
  };

  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  /// In no particular order; for reports.
  [[nodiscard]] std::span<ticket const> tickets() const noexcept { return heap_; }

  void enter(worker_id w, clock_index clock, clock_index need);

  /// Appends every worker whose need is met to `released`, in order of need.
  void release(clock_index c_min, std::vector<worker_id>& released) {
    if (!heap_.empty() && heap_.front().need <= c_min) release_some(c_min, released);
  }

  /// Forgets a worker that has gone. O(waiting), once per leave.
  void remove(worker_id w);

  void clear() noexcept { heap_.clear(); }

 private:
  void release_some(clock_index c_min, std::vector<worker_id>& released);

  std::vector<ticket> heap_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace rubato
