// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "rubato/core/assert.hpp"
#include "rubato/server/commit_rounds.hpp"

namespace rubato {

std::size_t commit_rounds::ready() const noexcept {
  auto const first = rounds_.begin();
  return first == rounds_.end() || first->first != open_ ? 0 : first->second.size();
}

void commit_rounds::add(version_index round, held_commit commit) {
  RUBATO_ASSERT(round >= open_);
  rounds_[round].push_back(std::move(commit));
  ++size_;
}

std::vector<held_commit> commit_rounds::end_round(std::size_t most, bool carry, std::uint64_t& left_out) {
  version_index const ended = std::exchange(open_, version_index{open_.value() + 1});
  auto node = rounds_.extract(ended);
  if (node.empty()) return {};
  std::vector<held_commit> commits = std::move(node.mapped());
  auto const rest = commits.begin() + static_cast<std::ptrdiff_t>(std::min(most, commits.size()));
  auto const more = static_cast<std::size_t>(commits.end() - rest);
  if (carry && more != 0) {
    auto& next = rounds_[open_];
    next.insert(next.begin(), std::make_move_iterator(rest), std::make_move_iterator(commits.end()));
  } else {
    left_out += more;
    size_ -= more;
  }
  commits.erase(rest, commits.end());
  size_ -= commits.size();
  std::ranges::sort(commits, {}, [](held_commit const& c) { return std::tuple(c.info.from, c.info.stamp); });
  return commits;
}

void commit_rounds::skip_empty() noexcept {
  if (!rounds_.empty()) open_ = std::max(open_, rounds_.begin()->first);
}

std::size_t commit_rounds::drop(worker_id from, clock_index cut) {
  std::size_t dropped = 0;
  for (auto at = rounds_.begin(); at != rounds_.end();) {
    dropped +=
        std::erase_if(at->second, [&](held_commit const& c) { return c.info.from == from && c.info.stamp >= cut; });
    at = at->second.empty() ? rounds_.erase(at) : std::next(at);
  }
  size_ -= dropped;
  return dropped;
}

}  // namespace rubato
