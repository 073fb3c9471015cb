// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/progress.hpp"

namespace rubato {

/// What each worker has changed that not all others know of, for an admission by value. Folds are numbered from 1; who
/// was let in after n folds knows of those up to n until it asks again. O(log workers) a step, and O(own commits that
/// somebody does not know of) a read. Not synchronized.
class unseen_changes {
 public:
  /// This worker's commit, which moves no element by more than `change`, is fold number `fold`.
  void fold(worker_id w, std::uint64_t fold, double change);
  /// The worker asks to be let in to a clock: it computes with nothing any more. False where it has been let in
  /// already.
  [[nodiscard]] bool ask(worker_id w, clock_index clock);
  /// It is let in to what it has asked for, after so many folds.
  void let_in(worker_id w, std::uint64_t folds);
  /// It has gone, or begins anew.
  void forget(worker_id w);
  /// As many folds as everybody knows of who computes; all where nobody does.
  [[nodiscard]] clock_index seen() const noexcept { return computing_.c_min(); }
  /// As many must be known to everybody for the worker to be within the limit.
  [[nodiscard]] clock_index need(worker_id w, double limit);

 private:
  struct change {
    std::uint64_t fold;
    double size;
  };
  struct record {
    clock_index asked = clock_index::lowest();
    std::deque<change> own;  ///< oldest first
  };
  [[nodiscard]] record& of(worker_id w) {
    if (w.index() >= workers_.size()) workers_.resize(w.index() + 1);
    return workers_[w.index()];
  }

  progress computing_;  ///< by worker that computes: how many folds it knows of
  std::vector<record> workers_;
};

}  // namespace rubato
