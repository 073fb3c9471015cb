// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/row_map.hpp"
#include "rubato/storage/block.hpp"

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

/// Adds updates, in their order, to rows that have been read: `values[i·width …]` belong to
/// `rows[i]`, which may repeat and come in any order. Costs O(rows) for each whole update, and
/// O(rows + what they hold) for all keyed ones together.
template <class T>
void add_rows(std::span<std::uint64_t const> rows, T* values, std::size_t width,
              std::span<weighted_update<T> const> parts) {
  constexpr auto none = static_cast<std::size_t>(-1);
  detail::row_map<std::size_t> last;             // row → its last place in `rows`
  std::vector<std::size_t> before(rows.size());  // the place before that where it is, too
  if (std::ranges::any_of(parts, [](auto const& u) { return !u.part->rows.empty(); })) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto const [at, fresh] = last.try_emplace(rows[i], i);
      before[i] = fresh ? none : std::exchange(at.value(), i);
    }
  }
  for (auto const& u : parts) {
    T const* const from = u.part->values.data();
    if (u.part->whole)
      for (std::size_t i = 0; i < rows.size(); ++i)
        detail::add_row(values + i * width, from + static_cast<std::size_t>(rows[i]) * width, width,
                        u.weight);
    for (std::size_t k = 0; k < u.part->rows.size(); ++k)
      if (auto const at = last.find(u.part->rows[k]); at != last.end())
        for (std::size_t i = at->second; i != none; i = before[i])
          detail::add_row(values + i * width, from + k * width, width, u.weight);
  }
}

}  // namespace rubato
