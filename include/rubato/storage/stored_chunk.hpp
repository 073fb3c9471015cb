// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "rubato/core/assert.hpp"
#include "rubato/core/element.hpp"
#include "rubato/storage/block.hpp"

namespace rubato::detail {

/// A chunk of an array under a lock.
template <parameter T>
struct stored_chunk {
  /// Under the lock: there may be other values.
  void note_values() noexcept {
    T const* const now = values.template as<T>();
    if (about.load(std::memory_order_relaxed) != now) about.store(now, std::memory_order_relaxed);
  }

  block_ref values;
  /// Where they are; to whoever has no lock, or were: for who wants them fetched before it has.
  std::atomic<T const*> about = nullptr;
};

/// Where rows of one element are, without the divisions and products of others: their chunks are powers of two.
template <parameter T>
class single_rows {
 public:
  /// @param group_shift log2 of how many chunks share a lock
  single_rows(stored_chunk<T> const* chunks, std::size_t chunk_size, int group_shift) noexcept
      : chunks_(chunks),
        mask_(chunk_size - 1),
        shift_(std::countr_zero(chunk_size)),
        group_shift_(shift_ + group_shift) {
    RUBATO_ASSERT(std::has_single_bit(chunk_size));
  }
  [[nodiscard]] std::size_t group(std::uint64_t row) const noexcept { return row >> group_shift_; }
  [[nodiscard]] std::size_t chunk(std::uint64_t row) const noexcept { return row >> shift_; }
  [[nodiscard]] std::size_t within(std::uint64_t row) const noexcept { return row & mask_; }
  [[nodiscard]] T const* operator()(std::uint64_t row) const noexcept {
    return chunks_[chunk(row)].about.load(std::memory_order_relaxed) + within(row);
  }

 private:
  stored_chunk<T> const* chunks_;
  std::uint64_t mask_;
  int shift_;
  int group_shift_;
};

}  // namespace rubato::detail
