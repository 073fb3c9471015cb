// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/server/messages.hpp"

namespace rubato {

/// A commit that is held back.
struct held_commit {
  commit_info info;  ///< as it was when the commit arrived
  commit_message message;
  std::uint64_t computed_at = 0;  ///< the fold steps that there were when its worker read what it computed at
};

/// The commits that a shard has received and visibility holds back, in the order in which they will
/// be folded: by stamp, then by worker.
///
/// Adding costs O(log stamps + log commits of the stamp). Not synchronized.
class commit_log {
 public:
  /// The commits of one stamp, by worker.
  using group = std::map<worker_id, held_commit>;
  using groups = std::vector<std::pair<clock_index, group>>;

  [[nodiscard]] bool empty() const noexcept { return groups_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  void add(held_commit commit);
  /// Takes out the commits with stamps below the horizon, oldest first.
  [[nodiscard]] groups take_below(clock_index horizon);
  /// Takes out the commits that `ready(stamp, worker)` says, in order. O(commits here).
  [[nodiscard]] groups take_if(std::function<bool(clock_index, worker_id)> const& ready);
  /// Forgets a worker's commits with stamps from `cut` on; returns how many.
  std::size_t drop(worker_id from, clock_index cut);

  /// Calls `f(commit)` for all commits here, in order.
  template <class F>
  void for_each(F f) const {
    for (auto const& [stamp, commits] : groups_)
      for (auto const& [worker, commit] : commits) f(commit);
  }

 private:
  std::map<clock_index, group> groups_;
  std::size_t size_ = 0;
};

}  // namespace rubato
