// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <utility>

#include "rubato/data/file_assigner.hpp"

namespace rubato::data {

file_assigner::file_assigner(std::vector<file_block> blocks)
    : blocks_(std::move(blocks)), given_(blocks_.size(), true) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) list(i);
}

void file_assigner::list(std::size_t block) {
  given_[block] = false;
  ++left_;
  std::vector<node_id> const& nodes = blocks_[block].nodes;
  for (node_id const n : nodes) of_node_[n].push_back(block);
  (nodes.empty() ? of_all_ : elsewhere_).push_back(block);
}

/// The first that has not been given to somebody by way of another queue.
std::size_t file_assigner::pop(queue& from) {
  while (!from.empty()) {
    std::size_t const block = from.front();
    from.pop_front();
    if (!given_[block]) return block;
  }
  return none;
}

bool file_assigner::lies_on(std::size_t block, node_id where) const {
  return std::ranges::find(blocks_[block].nodes, where) != blocks_[block].nodes.end();
}

std::optional<file_block> file_assigner::next(node_id where) {
  std::lock_guard const guard(lock_);
  std::size_t block = none;
  if (auto const here = of_node_.find(where); here != of_node_.end()) block = pop(here->second);
  if (block == none) block = pop(of_all_);
  if (block == none) block = pop(elsewhere_);
  if (block == none) return std::nullopt;
  given_[block] = true;
  --left_;
  if (lies_on(block, where)) ++local_;
  dealt_[where].push_back(block);
  return blocks_[block];
}

std::size_t file_assigner::lost(node_id where) {
  std::lock_guard const guard(lock_);
  auto const had = dealt_.extract(where);
  if (had.empty()) return 0;
  for (std::size_t const block : had.mapped()) {
    if (lies_on(block, where)) --local_;
    list(block);
  }
  return had.mapped().size();
}

std::size_t file_assigner::left() const {
  std::lock_guard const guard(lock_);
  return left_;
}

std::size_t file_assigner::local() const {
  std::lock_guard const guard(lock_);
  return local_;
}

}  // namespace rubato::data
