// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
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

  void enter(worker_id w, clock_index clock, clock_index need) {
    heap_.push_back({need, next_sequence_++, w, clock});
    std::ranges::push_heap(heap_, later);
  }

  /// Appends every worker whose need is met to `released`, in order of need.
  void release(clock_index c_min, std::vector<worker_id>& released) {
    while (!heap_.empty() && heap_.front().need <= c_min) {
      released.push_back(heap_.front().worker);
      std::ranges::pop_heap(heap_, later);
      heap_.pop_back();
    }
  }

  /// Forgets a worker that has gone. O(waiting), once per leave.
  void remove(worker_id w) {
    std::erase_if(heap_, [w](ticket const& t) { return t.worker == w; });
    std::ranges::make_heap(heap_, later);
  }

  void clear() noexcept { heap_.clear(); }

 private:
  static bool later(ticket const& a, ticket const& b) noexcept {
    return a.need != b.need ? a.need > b.need : a.sequence > b.sequence;
  }

  std::vector<ticket> heap_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace rubato
