// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "rubato/core/brief_mutex.hpp"

namespace rubato::detail {

/// The locks of an array's chunks, of which neighbors share one: groups of a power of two.
///
/// Small arrays have a lock for each chunk, since all workers are in the same few. Of larger ones rows are read and
/// changed by key, all over the array, and each lock that another worker has had since is fetched from its core. Of one
/// thread all chunks are one group, which no list leaves.
class chunk_locks {
 public:
  chunk_locks(std::size_t chunks, threading t)
      : shift_(shift_of(chunks, t)), count_((chunks >> shift_) + 1), locks_(std::make_unique<group_lock[]>(count_)) {
    for (std::size_t g = 0; g < count_; ++g) locks_[g].set(t);
  }

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// log2 of how many chunks share a lock
  [[nodiscard]] int shift() const noexcept { return shift_; }
  [[nodiscard]] std::size_t group_of(std::size_t chunk) const noexcept { return chunk >> shift_; }
  /// The number of the chunk after a group's last.
  [[nodiscard]] std::size_t end_of(std::size_t group) const noexcept { return (group + 1) << shift_; }
  /// A list that has taken so many goes back and forth between groups, and had better not take more one by one.
  [[nodiscard]] std::size_t most_in_order() const noexcept { return 2 * count_; }
  [[nodiscard]] brief_mutex& operator[](std::size_t group) const noexcept { return locks_[group]; }

  /// For rows in no order, which would take a lock for each: calls `f(places)` under the lock of each group that has
  /// rows, with where in the list they are, in its order.
  /// Cost: two passes over the list, and a word for each row. Throws std::bad_alloc before the first call.
  /// @param group_of a row's group
  template <class GroupOf, class F>
  void for_each_group(std::span<std::uint64_t const> rows, GroupOf group_of, F f) const {
    std::vector<std::size_t> ends(count_ + 1);
    for (std::uint64_t const row : rows) ++ends[group_of(row) + 1];
    for (std::size_t g = 0; g < count_; ++g) ends[g + 1] += ends[g];
    // Where a group begins becomes where it ends, as its places are put there.
    auto const places = std::make_unique_for_overwrite<std::size_t[]>(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) places[ends[group_of(rows[i])]++] = i;
    std::size_t begin = 0;
    for (std::size_t g = 0; g < count_; begin = ends[g++]) {
      if (ends[g] == begin) continue;
      std::lock_guard const guard(locks_[g]);
      f(std::span<std::size_t const>(&places[begin], ends[g] - begin));
    }
  }

 private:
  /// By itself in a cache line: two workers would take each other's neighbors away.
  struct alignas(64) group_lock : brief_mutex {};

  [[nodiscard]] static int shift_of(std::size_t chunks, threading t) noexcept {
    if (t == threading::single) return static_cast<int>(std::bit_width(chunks));
    constexpr std::size_t small = 64;
    constexpr std::size_t enough = 16;
    int shift = 0;
    while (chunks > small && chunks >> shift >= enough) ++shift;
    return shift;
  }

  int shift_;
  std::size_t count_;
  std::unique_ptr<group_lock[]> locks_;
};

}  // namespace rubato::detail
