// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"

namespace rubato {

/// A set of commits that every server has received: of each worker those with stamps below its
/// entry. What a synchronized read reflects. Immutable, so that requests share it.
class commit_cut {
 public:
  commit_cut() = default;
  /// @param c_min the least entry over the workers that are in the run
  commit_cut(std::vector<clock_index> below, clock_index c_min)
      : below_(std::move(below)), c_min_(c_min) {}

  /// By worker.
  [[nodiscard]] std::vector<clock_index> const& below() const noexcept { return below_; }
  /// All stamps of this worker below it are in; none of a worker that joined later.
  [[nodiscard]] clock_index of(worker_id w) const noexcept {
    return w.index() < below_.size() ? below_[w.index()] : clock_index::lowest();
  }
  [[nodiscard]] bool includes(worker_id w, clock_index stamp) const noexcept {
    return stamp < of(w);
  }
  [[nodiscard]] clock_index c_min() const noexcept { return c_min_; }
  [[nodiscard]] std::size_t size() const noexcept { return below_.size(); }
  /// What it takes on a wire, without framing.
  [[nodiscard]] std::size_t bytes() const noexcept { return below_.size() * sizeof(clock_index); }

  friend bool operator==(commit_cut const&, commit_cut const&) = default;

 private:
  std::vector<clock_index> below_;
  clock_index c_min_ = clock_index::lowest();
};

using shared_cut = std::shared_ptr<commit_cut const>;

}  // namespace rubato
