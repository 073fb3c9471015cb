// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rubato/core/block_memory.hpp"
#include "rubato/net/network.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/transport/processes/chunk_arena.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// Memory of a process for large updates, at which others on its machine may look: a worker's, whose servers fold them
/// from where they lie, or a peer's, whose neighbors average them so. They do not pass through a socket. One that has
/// been sent stays as it is until who got it has returned it.
///
/// At a worker only arrays about as large as a whole update have room here, as those that grow would leave holes of
/// many sizes. Rows that are pushed one by one lie here where they are nearly as many, or in the buffer of what was
/// whole.
class update_memory final : public block_memory {
 public:
  /// What is smaller is as fast through a socket.
  static constexpr std::size_t bytes_min = 64 * 1024;
  /// A server that folds commits as they come hears nobody while it folds what is lent: more of a commit than this goes
  /// in turns. Some 2 to 10 ms.
  static constexpr std::size_t folded_at_once_max = 16 * 1024 * 1024;

  /// Of a peer's parameters; several neighbors may each hold some of those that it has sent since, whole ones and
  /// pieces on their way. The arena has room for four states of each.
  static constexpr std::uint64_t replicas = 4;

  /// Arrays of so many bytes have slots of the greatest size.
  struct size_class {
    std::size_t least;
    std::size_t most;
  };

  /// For a process with so many workers. Nothing where no update is large, or the system gives no memory.
  [[nodiscard]] static std::shared_ptr<update_memory> make(blueprint const& plan, std::uint32_t workers,
                                                           net::network& network);
  /// For a peer's parameters, which take so many bytes, and parts of them. Nothing where they are small, or the system
  /// gives no memory.
  [[nodiscard]] static std::shared_ptr<update_memory> make(std::size_t parameters, net::network& network);
  /// What one neighbor may keep of that: a half.
  [[nodiscard]] static constexpr std::uint64_t lent_max(std::size_t parameters) noexcept {
    return 2 * replicas * std::uint64_t{parameters};
  }
  update_memory(std::unique_ptr<chunk_arena> arena, std::vector<size_class> sizes) noexcept
      : arena_(std::move(arena)), sizes_(std::move(sizes)) {}
  /// Whether updates of this table have room, at so many servers.
  [[nodiscard]] static bool lends(table_blueprint const& table, std::uint32_t servers);

  [[nodiscard]] void* take(std::size_t bytes) noexcept override;
  void give(void* at, std::size_t bytes) noexcept override {
    if (!retired_.load(std::memory_order_acquire)) arena_->give(at, slot_of(bytes));
  }
  /// This process leaves: from here on nothing is written there, as a server may still hold back what was lent to it.
  void retire() noexcept { retired_.store(true, std::memory_order_release); }

  /// Where others find it.
  [[nodiscard]] wire::memory_meta where() const { return arena_->where(); }
  /// How far from its beginning values lie that are lent; 0 for others. Any thread.
  [[nodiscard]] std::uint64_t place_of(std::span<std::byte const> values) const noexcept;
  /// Bytes that updates take now: for observers.
  [[nodiscard]] std::uint64_t used() const { return arena_->used(); }

 private:
  [[nodiscard]] static std::shared_ptr<update_memory> make_of(std::uint64_t bytes, std::vector<size_class> sizes,
                                                              net::network& network);
  /// 0: there is none.
  [[nodiscard]] std::size_t slot_of(std::size_t bytes) const noexcept;

  std::unique_ptr<chunk_arena> arena_;
  std::atomic<bool> retired_ = false;
  std::vector<size_class> sizes_;  ///< in ascending order
};

}  // namespace rubato::detail
