// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rubato/core/element.hpp"
#include "rubato/core/raw_array.hpp"

namespace rubato {

/// Values for rows of one server's part of a table, as those see them who compute: of a *run* of
/// consecutive rows, or, *keyed*, of the rows that are listed. Refers to memory of others.
template <parameter T>
struct row_values {
  bool keyed = false;  ///< whether rows are listed, else they are a run
  std::uint64_t first = 0;                ///< of a run: its first row
  std::span<std::uint64_t const> rows{};  ///< keyed: which rows; none occurs twice
  std::span<T const> values{};            ///< width for each row, one row after the other
};

/// The same, and what it counts.
template <parameter T>
struct weighted_update : row_values<T> {
  double weight = 1;  ///< what it counts
};

/// One table's part of a commit for one server.
///
/// Either *whole* (a value for every element that the server holds, in the order of its local rows)
/// or *keyed* (some rows: `rows[i]` has the values `values[i·width …]`; no row occurs twice). Empty
/// is keyed without rows. Immutable once committed, so that log, cache and link can share it.
struct update {
  bool whole = false;  ///< whether every element of the server's part has a value
  std::vector<std::uint64_t> rows;  ///< keyed: the rows that have values
  raw_array values;  ///< width for each row
  std::uint64_t coded = 0;  ///< what the values take on a wire, where a codec writes them; 0: as they lie

  [[nodiscard]] bool empty() const noexcept { return values.empty(); }
  /// What it takes on a wire, without framing.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return rows.size() * sizeof(std::uint64_t) + (coded != 0 ? static_cast<std::size_t>(coded) : values.size_bytes());
  }
  /// What it takes in memory.
  [[nodiscard]] std::size_t held_bytes() const noexcept {
    return rows.size() * sizeof(std::uint64_t) + values.size_bytes();
  }
  /// For those who compute. @pre its elements are of type T
  template <parameter T>
  [[nodiscard]] row_values<T> as() const noexcept {
    return {.keyed = !whole, .first = 0, .rows = rows, .values = values.as<T>()};
  }
};

/// An update and what it counts.
struct weighted_part {
  update const* part;  ///< the update
  double weight;  ///< what it counts

  /// For those who compute. @pre its elements are of type T
  template <parameter T>
  [[nodiscard]] weighted_update<T> as() const noexcept {
    return {part->as<T>(), weight};
  }
};

}  // namespace rubato
