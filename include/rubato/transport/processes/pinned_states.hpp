// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rubato/storage/table_state.hpp"
#include "rubato/transport/processes/chunk_arena.hpp"

namespace rubato::detail {

/// What one process on this machine is reading, or has yet to read, where it lies. Pins end with it at the latest.
class pinned_states {
 public:
  /// `memory` outlives this.
  explicit pinned_states(chunk_arena& memory) noexcept : memory_(memory) {}
  ~pinned_states() { clear(); }
  pinned_states(pinned_states const&) = delete;
  pinned_states& operator=(pinned_states const&) = delete;

  [[nodiscard]] std::size_t size() const noexcept { return held_.size(); }
  /// How many of them are answers about this table.
  [[nodiscard]] std::size_t of_table(std::size_t table) const noexcept {
    return static_cast<std::size_t>(std::ranges::count(held_, table, &held::table));
  }
  /// Takes the state of a table and says in `places` where its chunks lie; does neither, and returns nothing, where some lie
  /// elsewhere or there can be no pin. @pre the state is of a table that holds every row
  [[nodiscard]] std::optional<chunk_arena::pin> add(std::size_t table, table_state& state,
                                                    std::vector<std::uint64_t>& places);
  /// It has been read. One that does not hold, as its connection broke, is of no interest.
  void release(std::uint64_t pin) noexcept;
  /// Nobody reads any of it any more, or it does not matter.
  void clear() noexcept;

 private:
  struct held {
    chunk_arena::pin pin;
    std::size_t table;
    table_state state;
  };

  chunk_arena& memory_;
  std::vector<held> held_;
};

}  // namespace rubato::detail
