// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "rubato/storage/block.hpp"
#include "rubato/wire/messages.hpp"
#include "rubato/wire/secret.hpp"

namespace rubato::detail {

/// What the memory of a `chunk_arena` begins with, for both ends.
struct arena_head {
  static constexpr std::size_t pins_max = 500;
  wire::secret key;  ///< that this is the memory which its owner has told of
  /// The numbers of the pins that hold. One is struck out before what it kept may change, so that who has read finds
  /// out afterwards whether that was in time.
  std::array<std::atomic<std::uint64_t>, pins_max> pins;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
/// The chunks come after it.
inline constexpr std::size_t arena_head_size = 4096;
static_assert(sizeof(arena_head) <= arena_head_size);

/// Whether a limit is set on the addresses that this process may use: such memory takes many of them for what may come.
[[nodiscard]] bool addresses_are_scarce() noexcept;

/// Memory for a server's chunks, or a worker's updates, that processes of the same user on this machine may look at,
/// and not write: a file without a name, which no end can make shorter or longer, so that looking at it can never fail.
/// It outlives its owner for as long as somebody looks at it.
///
/// An answer *pins* the chunks that it consists of: they stay as they are until it is released, as the owner keeps a
/// reference to them. Thread safety: memory may be taken and given by any thread, the rest is for one.
class chunk_arena final : public block_memory {
 public:
  /// What holds an answer.
  struct pin {
    std::uint64_t number;
    std::uint32_t slot;
  };

  /// Room for `bytes` of chunks, and for older states of them while somebody reads these. Memory is used as it is
  /// taken. Nothing where the system has no such files, or no room. @param key that nobody can guess @param name for
  /// those who look at what a process has mapped
  [[nodiscard]] static std::unique_ptr<chunk_arena> make(std::uint64_t bytes, wire::secret const& key,
                                                         char const* name = "rubato-tables");
  ~chunk_arena() override;
  chunk_arena(chunk_arena const&) = delete;
  chunk_arena& operator=(chunk_arena const&) = delete;

  [[nodiscard]] void* take(std::size_t bytes) noexcept override;
  void give(void* at, std::size_t bytes) noexcept override;

  /// Where others find it.
  [[nodiscard]] wire::memory_meta where() const;
  /// How far from its beginning these bytes lie; nothing if they are elsewhere.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::byte const* at, std::size_t bytes) const noexcept;

  /// All tables are there. From here on chunks of each size have as much room as they take now for each of four states,
  /// so that no table takes another's.
  void settle() noexcept;
  /// Whether each array of so many bytes could be copied once more, as those have to be that change while they are pinned.
  [[nodiscard]] bool has_room_for_copies(std::size_t array_bytes) const noexcept;

  /// A pin of an answer; nothing where there are too many.
  [[nodiscard]] std::optional<pin> add_pin() noexcept;
  /// From here on it does not hold, and what it kept may change.
  void remove_pin(pin const& p) noexcept;

  /// Bytes that chunks take now, and how many pins hold: for observers.
  [[nodiscard]] std::uint64_t used() const;
  [[nodiscard]] std::size_t pinned() const noexcept;

 private:
  chunk_arena(int file, std::byte* memory, std::size_t size, wire::secret const& key);
  [[nodiscard]] bool grow_to(std::size_t end) noexcept;
  [[nodiscard]] arena_head& head() const noexcept { return *reinterpret_cast<arena_head*>(memory_); }

  int file_;
  std::byte* memory_;
  std::size_t size_;
  std::uint64_t number_;

  mutable std::mutex lock_;
  std::size_t end_;    ///< of what has ever been taken
  std::size_t there_;  ///< up to here the system has given memory
  /// What chunks of one size have.
  struct pool {
    std::byte* free = nullptr;  ///< the first one, which says where the next is
    std::uint64_t ever = 0;     ///< bytes, those that are free now with them
    std::uint64_t used = 0;
    std::uint64_t of_tables = 0;  ///< when all tables were there
  };
  std::map<std::size_t, pool> pools_;  ///< by size, of which tables have few
  bool settled_ = false;

  std::uint64_t pins_ = 0;  ///< so far
};

}  // namespace rubato::detail
