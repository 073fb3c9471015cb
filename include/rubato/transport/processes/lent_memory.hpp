// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rubato/net/link.hpp"
#include "rubato/net/network.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/shard.hpp"
#include "rubato/transport/processes/chunk_arena.hpp"
#include "rubato/transport/processes/pinned_states.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// A server's tables where worker processes on its machine may look at them: which processes are told of that memory,
/// and which answers say where they lie in it. Tables that have no room there are on the heap, and sent as everywhere.
class lent_memory {
 public:
  /// @param plan outlives this
  explicit lent_memory(blueprint const& plan) noexcept : plan_(plan) {}

  /// Makes room for what this server has of the tables. Where the system gives none, there is none.
  void make(server_id self, net::network& network);
  /// The shard is there, which has its chunks in `arena`.
  void settle() noexcept {
    if (arena_) arena_->settle();
  }
  /// Null where nothing is shared.
  [[nodiscard]] chunk_arena* arena() const noexcept { return arena_.get(); }

  /// Tells a process of it, over a connection that brings it to nobody else.
  void offer(net::link& to) const;
  /// The process has mapped the memory of this number: from here on it may have pins.
  void take_mapped(std::optional<pinned_states>& pins, std::uint64_t number) const;
  /// Pins the state of a table, which stays as it is until that is released, and says where it lies, in `meta` and as
  /// the body of an answer; nothing where that cannot be. @param workers of the process, in this stage @param state as
  /// the shard has left it: of tables that are streamed it is taken here
  [[nodiscard]] std::optional<std::span<std::byte const>> pin(std::optional<pinned_states>& pins, std::uint64_t workers,
                                                              std::size_t table, shard const& of, table_state& state,
                                                              wire::reply_meta& meta);

 private:
  [[nodiscard]] bool may_pin(std::optional<pinned_states> const& pins, std::uint64_t workers, std::size_t table) const;

  /// Answers that one process has yet to read: it has to release some before it is sent others so.
  static constexpr std::size_t pins_of_a_process = 16;

  blueprint const& plan_;
  server_id self_{};
  std::unique_ptr<chunk_arena> arena_;
  std::vector<std::uint64_t> places_;  ///< of the chunks of the answer that is being sent
};

}  // namespace rubato::detail
