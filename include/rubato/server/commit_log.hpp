// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"

namespace rubato {

/// The commits that a shard has received and visibility holds back, in the order in which they will
/// be folded: by stamp, then by worker.
///
/// Adding costs O(log stamps + log commits of the stamp). Not synchronized.
template <class Message>
class commit_log {
 public:
  /// The commits of one stamp, by worker.
  using group = std::map<worker_id, Message>;

  [[nodiscard]] bool empty() const noexcept { return groups_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  void add(clock_index stamp, worker_id from, Message message) {
    bool const fresh = groups_[stamp].emplace(from, std::move(message)).second;
    RUBATO_ASSERT(fresh);
    if (fresh) ++size_;
  }

  /// Takes out the commits with stamps below the horizon, oldest first.
  [[nodiscard]] std::vector<std::pair<clock_index, group>> take_below(clock_index horizon) {
    std::vector<std::pair<clock_index, group>> ready;
    while (!groups_.empty() && groups_.begin()->first < horizon) {
      auto node = groups_.extract(groups_.begin());
      size_ -= node.mapped().size();
      ready.emplace_back(node.key(), std::move(node.mapped()));
    }
    return ready;
  }

  /// Takes out the commits that `ready(stamp, worker)` says, in order. O(commits here).
  template <class Ready>
  [[nodiscard]] std::vector<std::pair<clock_index, group>> take_if(Ready ready) {
    std::vector<std::pair<clock_index, group>> taken;
    for (auto at = groups_.begin(); at != groups_.end();) {
      group some;
      for (auto c = at->second.begin(); c != at->second.end();) {
        auto const next = std::next(c);
        if (ready(at->first, c->first)) some.insert(at->second.extract(c));
        c = next;
      }
      size_ -= some.size();
      if (!some.empty()) taken.emplace_back(at->first, std::move(some));
      at = at->second.empty() ? groups_.erase(at) : std::next(at);
    }
    return taken;
  }

  /// Calls `f(stamp, worker, message)` for all commits here, in order.
  template <class F>
  void for_each(F f) const {
    for (auto const& [stamp, commits] : groups_)
      for (auto const& [worker, message] : commits) f(stamp, worker, message);
  }

  /// Forgets a worker's commits with stamps from `cut` on; returns how many.
  std::size_t drop(worker_id from, clock_index cut) {
    std::size_t dropped = 0;
    for (auto at = groups_.lower_bound(cut); at != groups_.end();) {
      dropped += at->second.erase(from);
      at = at->second.empty() ? groups_.erase(at) : std::next(at);
    }
    size_ -= dropped;
    return dropped;
  }

 private:
  std::map<clock_index, group> groups_;
  std::size_t size_ = 0;
};

}  // namespace rubato
