// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rubato/partition/layout.hpp"

namespace rubato {

/// Finds the rows of a table: of a bounded one through its layout, of another by asking the partition;
/// there a local row is the key itself. Cheap to copy. Used concurrently.
class locator {
 public:
  /// O(rows) for a bounded table; of another the partition is asked for one key, so that it can refuse the
  /// shape now, and not when a run is under way.
  /// @throws option_error when the partition of a bounded table names a server that there is not, and what the
  /// partition throws
  locator(partition_rule partition, table_shape shape, bool bounded)
      : partition_(std::move(partition)),
        shape_(shape),
        layout_(bounded ? std::make_shared<layout const>(partition_, shape) : nullptr) {
    std::uint64_t const first = 0;
    std::uint32_t server;
    if (!bounded) partition_.servers_of({&first, 1}, shape_, &server);
  }

  /// @pre `contains(k)` @throws option_error as the constructor, of a table that is not bounded
  [[nodiscard]] layout::place locate(key k) const;
  /// The same for many.
  void locate(std::span<std::uint64_t const> keys, std::vector<layout::place>& out) const;

  /// Whether the table can have a row with this key.
  [[nodiscard]] bool contains(key k) const noexcept {
    return k.value() < shape_.rows || (shape_.rows == 0 && !layout_);
  }
  /// The same for all of these.
  [[nodiscard]] bool contains_all(std::span<std::uint64_t const> keys) const noexcept {
    if (shape_.rows == 0 && !layout_) return true;
    bool all = true;
    for (std::uint64_t const k : keys) all &= k < shape_.rows;
    return all;
  }
  /// The server that holds every row, under its key; none where there are several.
  [[nodiscard]] std::optional<server_id> only_server() const noexcept {
    if (!layout_) return shape_.servers == 1 ? std::optional(server_id{0}) : std::nullopt;
    auto const runs = layout_->runs();
    return runs.size() == 1 ? std::optional(runs.front().server) : std::nullopt;
  }
  /// How many rows a server has; 0 where any number may come.
  [[nodiscard]] std::uint64_t rows_of(server_id s) const noexcept {
    return layout_ ? layout_->rows_of(s) : 0;
  }
  /// Whether the table holds every row, and there is a layout.
  [[nodiscard]] bool bounded() const noexcept { return layout_ != nullptr; }
  /// @pre `bounded()`
  [[nodiscard]] layout const& rows() const noexcept { return *layout_; }

 private:
  partition_rule partition_;
  table_shape shape_;
  std::shared_ptr<layout const> layout_;
};

}  // namespace rubato
