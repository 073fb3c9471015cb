// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "rubato/core/assert.hpp"
#include "rubato/core/short_list.hpp"
#include "rubato/storage/block.hpp"

namespace rubato {

/// All rows of one server's part of a table at one moment; frozen, and shared with the store until
/// that folds again.
///
/// Of a table that holds every row: chunks of whole rows, in their order. Each chunk is whole; under
/// eager visibility chunks may differ by commits that were being folded meanwhile. Of one that holds
/// the touched rows: their keys, ascending, and their values in that order, which are one chunk.
///
/// Its holder may change it: chunks that anybody else refers to are copied then, and only those.
/// Sizes are in bytes: who moves parameters need not know what they are. Not synchronized.
class table_state {
 public:
  [[nodiscard]] bool empty() const noexcept { return chunks() == 0; }
  /// Gives up the state. Memory that a store has no part in is kept for the next one.
  void clear() noexcept {
    if (!received_) chunks_.clear();
    keys_ = {};
    filled_ = false;
  }
  /// The same state once more; the memory stays this one's to use again.
  [[nodiscard]] table_state share() const {
    table_state s;
    s.chunk_bytes_ = chunk_bytes_;
    if (!filled_) return s;
    s.keys_ = keys_;
    s.chunks_ = chunks_;
    s.filled_ = true;
    return s;
  }
  friend void swap(table_state& a, table_state& b) noexcept {
    std::swap(a.chunk_bytes_, b.chunk_bytes_);
    std::swap(a.filled_, b.filled_);
    std::swap(a.received_, b.received_);
    std::swap(a.keys_, b.keys_);
    a.chunks_.swap(b.chunks_);
    a.spare_.swap(b.spare_);
  }
  /// What it takes on a wire, without framing.
  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t total = keys_ ? keys_.size_bytes() : 0;
    for (std::size_t i = 0; i < chunks(); ++i) total += chunks_[i].size_bytes();
    return total;
  }

  // ---- made by a store, or from what has arrived

  /// The bytes of a chunk, about 64 KiB, in whole rows.
  [[nodiscard]] static constexpr std::size_t chunk_bytes(std::size_t row_bytes) noexcept {
    return std::max<std::size_t>(1, usual_chunk / row_bytes) * row_bytes;
  }

  /// Becomes `count` chunks of `bytes` each, the last perhaps less, which `chunk(i)` gives.
  template <class F>
  void refer(std::size_t count, std::size_t bytes, F chunk) {
    clear();
    if (received_) lay_aside();
    chunk_bytes_ = bytes;
    filled_ = true;
    chunks_.resize(count);
    for (std::size_t i = 0; i < count; ++i) chunks_[i] = chunk(i);
  }

  /// Becomes a state of `bytes`, to be written by the caller: `write(data, n, offset)` gets each
  /// chunk. Memory of a state that nobody else refers to is used again.
  template <class F>
  void receive(std::size_t bytes, std::size_t row_bytes, F write) {
    chunk_bytes_ = chunk_bytes(row_bytes);
    reuse((bytes + chunk_bytes_ - 1) / chunk_bytes_);
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      std::size_t const first = i * chunk_bytes_;
      std::size_t const n = std::min(chunk_bytes_, bytes - first);
      write(fresh(chunks_[i], n), n, first);
    }
  }

  /// Becomes a state of touched rows, to be written by the caller: `write(keys, values)`, where `keys`
  /// has a place for each row.
  template <class F>
  void receive_rows(std::size_t rows, std::size_t row_bytes, F write) {
    chunk_bytes_ = std::max<std::size_t>(1, rows * row_bytes);
    reuse(1);
    keys_ = block_ref(rows * sizeof(std::uint64_t));
    std::byte* const values = fresh(chunks_[0], rows * row_bytes);
    write(std::span(reinterpret_cast<std::uint64_t*>(keys_.mutable_data()), rows), values);
  }

  // ---- read

  /// Calls `piece(data, n, offset)` for each contiguous stretch of the bytes asked for.
  template <class F>
  void for_each_piece(std::size_t first, std::size_t count, F piece) const {
    for (std::size_t done = 0; done < count;) {
      std::size_t const chunk = (first + done) / chunk_bytes_;
      std::size_t const at = (first + done) % chunk_bytes_;
      std::size_t const n = std::min(count - done, chunk_bytes_ - at);
      piece(chunks_[chunk].data() + at, n, done);
      done += n;
    }
  }
  void copy(std::size_t first, std::size_t count, std::byte* out) const noexcept {
    for_each_piece(first, count, [&](std::byte const* from, std::size_t n, std::size_t offset) {
      std::memcpy(out + offset, from, n);
    });
  }
  /// The touched rows; empty where every row is held.
  [[nodiscard]] std::span<std::uint64_t const> keys() const noexcept {
    if (!keys_) return {};
    return {reinterpret_cast<std::uint64_t const*>(keys_.data()),
            keys_.size_bytes() / sizeof(std::uint64_t)};
  }
  /// The values of the touched rows, in their order. @pre not `empty()`
  [[nodiscard]] std::byte const* row_values() const noexcept { return chunks_[0].data(); }

  // ---- changed by its holder

  [[nodiscard]] std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }
  [[nodiscard]] std::size_t chunks() const noexcept { return filled_ ? chunks_.size() : 0; }
  [[nodiscard]] block_ref& chunk(std::size_t i) noexcept { return chunks_[i]; }
  [[nodiscard]] block_ref const& chunk(std::size_t i) const noexcept { return chunks_[i]; }

 private:
  static constexpr std::size_t usual_chunk = 64 * 1024;
  using chunk_list = short_list<block_ref, 1>;  // small tables have one

  /// The chunks become those of a store: memory of states received before waits for the next of them.
  void lay_aside() {
    spare_ = std::make_unique<chunk_list>(std::move(chunks_));
    received_ = false;
  }
  void reuse(std::size_t chunks) {
    if (!received_) chunks_.clear();
    if (spare_) chunks_ = std::move(*std::exchange(spare_, nullptr));
    filled_ = received_ = true;
    chunks_.resize(chunks);
  }
  static std::byte* fresh(block_ref& c, std::size_t bytes) {
    if (!c || c.size_bytes() != bytes || !c.unique()) c = block_ref(bytes);
    return c.mutable_data();
  }

  std::size_t chunk_bytes_ = 1;
  bool filled_ = false;    ///< the chunks are a state, not only memory for one
  bool received_ = false;  ///< the chunks are this state's own
  chunk_list chunks_;
  block_ref keys_;
  std::unique_ptr<chunk_list> spare_;  ///< memory of states received before, while the chunks are a store's
};

}  // namespace rubato
