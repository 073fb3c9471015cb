// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/storage/chunk_memory.hpp"

namespace rubato {

void paging::check(std::size_t row_bytes) const {
  if (chunk_bytes < row_bytes)
    throw option_error("paging: chunk_bytes is " + std::to_string(chunk_bytes) + ", expected at least a row, of " +
                       std::to_string(row_bytes) + " bytes");
  if (memory_limit != 0 && memory_limit < chunk_bytes)
    throw option_error("paging: memory_limit is " + std::to_string(memory_limit) +
                       " bytes, expected 0 or at least a chunk, of " + std::to_string(chunk_bytes));
  if (replace != replacement::least_recently_used && replace != replacement::least_frequently_used)
    throw option_error("paging: replace is " + std::to_string(static_cast<int>(replace)) +
                       ", expected one of the values of `replacement`");
}

// ---- chunks

chunk_memory::chunk_memory(std::size_t chunks, std::size_t chunk_bytes, paging const& limit, threading t)
    : chunk_bytes_(chunk_bytes),
      most_(limit.memory_limit == 0 ? chunks : std::max<std::size_t>(1, limit.memory_limit / chunk_bytes)),
      replace_(limit.replace),
      chunks_(std::make_unique<chunk[]>(chunks)),
      moving_(t),
      file_(limit.directory) {
  for (std::size_t i = 0; i < chunks; ++i) chunks_[i].lock.set(t);
  resident_.reserve(std::min(most_, chunks));
}

std::size_t chunk_memory::bytes() const {
  std::lock_guard const guard(moving_);
  return resident_.size() * chunk_bytes_;
}

/// @pre the chunk is locked, and not in memory
void chunk_memory::bring(std::size_t i) const {
  chunk& c = chunks_[i];
  frame room = make_room(i);
  if (c.stored) {
    try {
      file_.read(i * chunk_bytes_, {room.get(), chunk_bytes_});
    } catch (...) {
      give_up(i);
      throw;
    }
    reloads_.fetch_add(1, std::memory_order_relaxed);
  } else {
    std::fill_n(room.get(), chunk_bytes_, std::byte{});
  }
  c.memory = std::move(room);
  c.changed = false;
  c.uses.store(0, std::memory_order_relaxed);
}

/// Memory for a chunk, which counts as resident from now on.
chunk_memory::frame chunk_memory::make_room(std::size_t i) const {
  std::lock_guard const guard(moving_);
  frame room;
  while (resident_.size() >= most_) {
    frame freed = evict_one();
    if (freed == nullptr) break;  // all are in use
    room = std::move(freed);
  }
  if (room == nullptr) room = std::make_unique_for_overwrite<std::byte[]>(chunk_bytes_);
  resident_.push_back(i);
  return room;
}

void chunk_memory::give_up(std::size_t i) const noexcept {
  std::lock_guard const guard(moving_);
  std::erase(resident_, i);
}

/// The memory of the chunk that is worth least of those that nobody is using; null where there is none.
chunk_memory::frame chunk_memory::evict_one() const {
  std::optional<worth> tried;
  while (auto const least = least_above(tried)) {
    auto const [uses, last_use, i] = *least;
    chunk& c = chunks_[i];
    std::unique_lock const alone(c.lock, std::try_to_lock);
    if (alone.owns_lock()) {
      store(i);
      std::erase(resident_, i);
      return std::move(c.memory);
    }
    tried = least;
  }
  return nullptr;
}

/// Of the chunks in memory the least that is above `bound`.
std::optional<chunk_memory::worth> chunk_memory::least_above(std::optional<worth> const& bound) const {
  std::optional<worth> least;
  for (std::size_t const i : resident_) {
    chunk const& c = chunks_[i];
    bool const by_uses = replace_ == replacement::least_frequently_used;
    worth const w{by_uses ? c.uses.load(std::memory_order_relaxed) : 0, c.last_use.load(std::memory_order_relaxed), i};
    if ((!bound || w > *bound) && (!least || w < *least)) least = w;
  }
  return least;
}

/// So that the file has it as it is.
void chunk_memory::store(std::size_t i) const {
  chunk& c = chunks_[i];
  if (!c.changed) return;
  file_.write(i * chunk_bytes_, {c.memory.get(), chunk_bytes_});
  c.stored = true;
  c.changed = false;
}

}  // namespace rubato
