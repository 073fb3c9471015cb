// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/data/file_assigner.hpp"

namespace rubato::data {

file_assigner::file_assigner(std::vector<file_block> blocks) : blocks_(std::move(blocks)) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) list(i);
}

void file_assigner::list(std::size_t block) {
  for (node_id const n : blocks_[block].nodes) of_node_[n].insert(block);
  others(block).insert(block);
}

void file_assigner::unlist(std::size_t block) {
  for (node_id const n : blocks_[block].nodes) of_node_[n].erase(block);
  others(block).erase(block);
}

bool file_assigner::lies_on(std::size_t block, node_id where) const {
  return std::ranges::find(blocks_[block].nodes, where) != blocks_[block].nodes.end();
}

std::optional<std::size_t> file_assigner::first_for(node_id where) const {
  if (auto const here = of_node_.find(where); here != of_node_.end() && !here->second.empty())
    return *here->second.begin();
  for (queue const* q : {&of_all_, &elsewhere_})
    if (!q->empty()) return *q->begin();
  return std::nullopt;
}

std::optional<file_block> file_assigner::next(node_id where) {
  std::lock_guard const guard(lock_);
  std::optional<std::size_t> const block = first_for(where);
  if (!block) return std::nullopt;
  dealt_[where].push_back(*block);
  unlist(*block);
  if (lies_on(*block, where)) ++local_;
  return blocks_[*block];
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
  return of_all_.size() + elsewhere_.size();
}

std::size_t file_assigner::local() const {
  std::lock_guard const guard(lock_);
  return local_;
}

namespace {

constexpr std::uint32_t nobody = ~std::uint32_t{0};

bool says_its_end(file_block const& b) noexcept { return b.end != std::numeric_limits<std::uint64_t>::max(); }

/// By block.
std::vector<std::uint64_t> sizes_of(std::vector<file_block> const& blocks) {
  std::uint64_t largest = 1;
  for (file_block const& b : blocks) {
    if (b.end < b.begin)
      throw option_error("share_out: a block of " + b.file + " ends at byte " + std::to_string(b.end) +
                         ", expected none before its first, " + std::to_string(b.begin));
    if (says_its_end(b)) largest = std::max(largest, b.end - b.begin);
  }
  std::vector<std::uint64_t> sizes;
  for (file_block const& b : blocks) sizes.push_back(says_its_end(b) ? b.end - b.begin : largest);
  return sizes;
}

/// Of these nodes the one that has least; the first of several.
std::uint32_t least_of(std::span<node_id const> some, std::span<std::uint64_t const> has) {
  std::uint32_t least = nobody;
  for (node_id const n : some)
    if (n.value() < has.size() && (least == nobody || has[n.value()] < has[least])) least = n.value();
  return least;
}

}  // namespace

std::vector<std::vector<file_block>> share_out(std::vector<file_block> const& blocks, std::uint32_t nodes) {
  if (nodes == 0) throw option_error("share_out: nodes must be at least 1");
  std::vector<std::uint64_t> const sizes = sizes_of(blocks);
  std::uint64_t const all = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  std::uint64_t const part = all / nodes + (all % nodes != 0 ? 1 : 0);
  std::vector<std::uint64_t> has(nodes);
  std::vector<std::uint32_t> of(blocks.size(), nobody);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::uint32_t const here = least_of(blocks[i].nodes, has);
    if (here == nobody || has[here] + sizes[i] > part) continue;
    of[i] = here;
    has[here] += sizes[i];
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (of[i] != nobody) continue;
    of[i] = static_cast<std::uint32_t>(std::ranges::min_element(has) - has.begin());
    has[of[i]] += sizes[i];
  }
  std::vector<std::vector<file_block>> shares(nodes);
  for (std::size_t i = 0; i < blocks.size(); ++i) shares[of[i]].push_back(blocks[i]);
  return shares;
}

}  // namespace rubato::data
