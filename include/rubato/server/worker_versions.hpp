// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/progress.hpp"

namespace rubato {

/// Which version each worker's next commit belongs to (V of rules §4), as one shard knows it.
///
/// A commit counts in two steps, since visibility may hold it back: `receive` moves its worker's V
/// on, `fold` makes its version one that readers have seen. In between the version stays alive.
/// Steps cost O(log workers). Not synchronized.
class worker_versions {
 public:
  /// V(m). @pre the worker is in the run
  [[nodiscard]] version_index of(worker_id w) const noexcept { return members_[w.index()].next; }
  /// One above the newest version that has been folded; never falls.
  [[nodiscard]] version_index top() const noexcept { return top_; }
  /// No commit that is held back or still to come has an older version; `highest()` when nobody is
  /// left who could send one.
  [[nodiscard]] version_index least() const noexcept {
    return version_index{bounds_.c_min().value()};
  }

  void join(worker_id w, version_index at);

  /// The worker sends no more; what it has sent may still be held back.
  void leave(worker_id w);

  /// V(m) is at least `to`: for a reader, and for a joiner that another shard put further ahead.
  void raise(worker_id w, version_index to);

  /// Whether a commit may have this version: V never falls, so an older one is not its worker's. Nor
  /// is one that so many commits cannot have led to, and after which V could not go on.
  [[nodiscard]] bool accepts(worker_id w, version_index v) const noexcept;

  void receive(worker_id w, version_index v);

  /// The oldest commit held back of this worker has been folded.
  void fold(worker_id w, version_index v);

  /// The newest `count` commits held back of this worker will never be folded.
  void drop(worker_id w, std::size_t count);

  [[nodiscard]] static version_index after(version_index v) noexcept {
    return version_index{v.value() + 1};
  }

 private:
  struct member {
    version_index next{};
    boost::container::small_vector<version_index, 2> held;  // of commits held back, oldest first
    bool gone = true;
  };

  [[nodiscard]] static clock_index oldest(member const& m) noexcept {
    return clock_index{(m.held.empty() ? m.next : m.held.front()).value()};
  }
  void settle(worker_id w);

  progress bounds_;  // the least version that each worker may still need
  std::vector<member> members_;
  version_index top_{0};
};

}  // namespace rubato
