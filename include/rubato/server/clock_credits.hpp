// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/progress.hpp"
#include "rubato/core/time.hpp"
#include "rubato/protocol/admission_rule.hpp"

namespace rubato {

/// What an admission that extends has granted each worker, and when their last commits came. O(log workers) a read that
/// asks, beside what the policy takes. Not synchronized.
class clock_credits {
 public:
  /// A commit of this worker has come.
  void note(worker_id w, time_point at);
  /// The worker begins anew: two commits more must come before it is granted anything.
  void forget(worker_id w);
  /// Whether a read that would have to wait may go on: it is within its bound, and has been granted its clock, now or
  /// before.
  /// @param c_min of which readers know
  [[nodiscard]] bool allows(admission_rule const& admission, progress const& clocks, clock_index c_min,
                            worker_id reader, clock_index clock, staleness bound);

 private:
  struct record {
    std::optional<time_point> before, last;
    clock_index granted{};  ///< reads at clocks below it may go on
  };
  [[nodiscard]] record& of(worker_id w) {
    if (w.index() >= workers_.size()) workers_.resize(w.index() + 1);
    return workers_[w.index()];
  }
  [[nodiscard]] std::int64_t extra(admission_rule const& admission, progress const& clocks, worker_id reader,
                                   std::int64_t most);

  std::vector<record> workers_;
};

}  // namespace rubato
