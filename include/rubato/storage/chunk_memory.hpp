// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "rubato/core/optional_mutex.hpp"
#include "rubato/storage/paging.hpp"
#include "rubato/storage/swap_file.hpp"

namespace rubato {

/// Equal chunks of bytes, zero at first, of which as many are in memory as a limit allows, and the others in a file.
///
/// Each chunk has a lock of its own; whoever uses one is alone with it. One that is in memory is found without any
/// other lock; what moves between memory and file moves one chunk at a time.
/// Source: 004 §5.3 (chunk-based race control, on-demand preparation).
/// Cost: O(1), and for a chunk that is not there O(chunks in memory) and one read, with a write where the
/// one that goes has been changed.
class chunk_memory {
 public:
  /// @param limit see `paging` @throws option_error
  chunk_memory(std::size_t chunks, std::size_t chunk_bytes, paging const& limit, threading t);

  /// `f(bytes)`, or `f(nullptr)` for a chunk that has never been written: it is zero. `f` uses no other chunk.
  /// @throws error with errc::io
  template <class F>
  void read(std::size_t i, F f) const {
    chunk& c = chunks_[i];
    std::lock_guard const alone(c.lock);
    if (c.memory == nullptr && c.stored) bring(i);
    note_use(c);
    f(static_cast<std::byte const*>(c.memory.get()));
  }
  /// `f(bytes)`, which may be changed. Otherwise as `read`.
  template <class F>
  void write(std::size_t i, F f) {
    chunk& c = chunks_[i];
    std::lock_guard const alone(c.lock);
    if (c.memory == nullptr) bring(i);
    note_use(c);
    c.changed = true;
    f(c.memory.get());
  }

  /// In memory now.
  [[nodiscard]] std::size_t bytes() const;
  /// How many chunks have come back from the file so far.
  [[nodiscard]] std::uint64_t reloads() const noexcept { return reloads_.load(std::memory_order_relaxed); }

 private:
  using frame = std::unique_ptr<std::byte[]>;
  struct chunk {
    optional_mutex lock;  ///< what follows, but for the atomic ones
    frame memory{};
    bool stored = false;   ///< the file has it, perhaps as it was before
    bool changed = false;  ///< since the file got it
    std::atomic<std::uint64_t> uses = 0;
    std::atomic<std::uint64_t> last_use = 0;
  };

  /// The least goes first: uses where they count, the last use, and which chunk it is.
  using worth = std::tuple<std::uint64_t, std::uint64_t, std::size_t>;

  void note_use(chunk& c) const noexcept {
    c.uses.store(c.uses.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    c.last_use.store(now_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  }
  void bring(std::size_t i) const;
  [[nodiscard]] frame make_room(std::size_t i) const;
  void give_up(std::size_t i) const noexcept;
  [[nodiscard]] frame evict_one() const;
  [[nodiscard]] std::optional<worth> least_above(std::optional<worth> const& bound) const;
  void store(std::size_t i) const;

  std::size_t chunk_bytes_;
  std::size_t most_;  ///< chunks in memory
  replacement replace_;
  std::unique_ptr<chunk[]> chunks_;  // reading changes where they are, not what they hold
  mutable std::atomic<std::uint64_t> now_ = 1;
  mutable std::atomic<std::uint64_t> reloads_ = 0;

  mutable optional_mutex moving_;  ///< what follows; taken with a chunk's lock held, never the other way round
  mutable std::vector<std::size_t> resident_;
  mutable swap_file file_;
};

}  // namespace rubato
