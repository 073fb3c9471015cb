// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rubato {

/// One table's part of a commit for one server.
///
/// Either *whole* (a value for every element that the server holds, in the order of its local rows)
/// or *keyed* (some rows: `rows[i]` has the values `values[i·width …]`; no row occurs twice). Empty
/// is keyed without rows. Immutable once committed, so that log, cache and link can share it.
template <class T>
struct update {
  bool whole = false;
  std::vector<std::uint64_t> rows;
  std::vector<T> values;

  [[nodiscard]] bool empty() const noexcept { return values.empty(); }
  /// What it takes on a wire, without framing.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return rows.size() * sizeof(std::uint64_t) + values.size() * sizeof(T);
  }
};

/// An update and what it counts.
template <class T>
struct weighted_update {
  update<T> const* part;
  double weight;
};

}  // namespace rubato
