// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <iterator>

#include "rubato/core/assert.hpp"
#include "rubato/server/commit_log.hpp"

namespace rubato {

void commit_log::add(held_commit commit) {
  worker_id const from = commit.info.from;
  bool const fresh = groups_[commit.info.stamp].emplace(from, std::move(commit)).second;
  RUBATO_ASSERT(fresh);
  if (fresh) ++size_;
}

commit_log::groups commit_log::take_below(clock_index horizon) {
  groups ready;
  while (!groups_.empty() && groups_.begin()->first < horizon) {
    auto node = groups_.extract(groups_.begin());
    size_ -= node.mapped().size();
    ready.emplace_back(node.key(), std::move(node.mapped()));
  }
  return ready;
}

commit_log::groups commit_log::take_if(std::function<bool(clock_index, worker_id)> const& ready) {
  groups taken;
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

std::size_t commit_log::drop(worker_id from, clock_index cut) {
  std::size_t dropped = 0;
  for (auto at = groups_.lower_bound(cut); at != groups_.end();) {
    dropped += at->second.erase(from);
    at = at->second.empty() ? groups_.erase(at) : std::next(at);
  }
  size_ -= dropped;
  return dropped;
}

}  // namespace rubato
