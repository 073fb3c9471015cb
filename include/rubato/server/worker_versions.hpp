// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <limits>
#include <vector>

#include "rubato/core/assert.hpp"
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

  void join(worker_id w, version_index at) {
    if (w.index() >= members_.size()) members_.resize(w.index() + 1);
    if (bounds_.contains(w)) bounds_.leave(w);
    member& m = members_[w.index()];  // what an earlier life sent may still be held back
    m.next = std::max({at, m.next, version_index{bounds_.floor().value()}});
    m.gone = false;
    bounds_.join(w, std::max(bounds_.floor(), oldest(m)));
  }

  /// The worker sends no more; what it has sent may still be held back.
  void leave(worker_id w) {
    member& m = members_[w.index()];
    m.gone = true;
    if (m.held.empty() && bounds_.contains(w)) bounds_.leave(w);
  }

  /// V(m) is at least `to`: for a reader, and for a joiner that another shard put further ahead.
  void raise(worker_id w, version_index to) {
    member& m = members_[w.index()];
    m.next = std::max(m.next, to);
    settle(w);
  }

  /// Whether a commit may have this version: V never falls, so an older one is not its worker's. Nor
  /// is one that so many commits cannot have led to, and after which V could not go on.
  [[nodiscard]] bool accepts(worker_id w, version_index v) const noexcept {
    constexpr version_index most{std::numeric_limits<std::int64_t>::max() / 2};
    return v >= of(w) && v < most;
  }

  void receive(worker_id w, version_index v) {
    member& m = members_[w.index()];
    RUBATO_ASSERT(v >= m.next);
    m.next = after(v);
    m.held.push_back(v);
    settle(w);
  }

  /// The oldest commit held back of this worker has been folded.
  void fold(worker_id w, version_index v) {
    member& m = members_[w.index()];
    RUBATO_ASSERT(!m.held.empty() && m.held.front() == v);
    m.held.erase(m.held.begin());
    top_ = std::max(top_, after(v));
    settle(w);
  }

  /// The newest `count` commits held back of this worker will never be folded.
  void drop(worker_id w, std::size_t count) {
    member& m = members_[w.index()];
    m.held.erase(m.held.end() - static_cast<std::ptrdiff_t>(count), m.held.end());
    settle(w);
  }

  [[nodiscard]] static version_index after(version_index v) noexcept {
    return version_index{v.value() + 1};
  }

 private:
  struct member {
    version_index next{};
    boost::container::small_vector<version_index, 2> held;  // of commits held back, oldest first
    bool gone = true;
  };

  [[nodiscard]] static clock_index clock_of(version_index v) noexcept {
    return clock_index{v.value()};
  }

  [[nodiscard]] static clock_index oldest(member const& m) noexcept {
    return clock_of(m.held.empty() ? m.next : m.held.front());
  }

  void settle(worker_id w) {
    member const& m = members_[w.index()];
    if (!bounds_.contains(w)) return;
    if (m.held.empty() && m.gone) bounds_.leave(w);
    else bounds_.advance(w, oldest(m));
  }

  progress bounds_;  // the least version that each worker may still need
  std::vector<member> members_;
  version_index top_{0};
};

}  // namespace rubato
