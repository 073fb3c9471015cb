// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/row_map.hpp"
#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/dense_store.hpp"
#include "rubato/storage/table_state.hpp"
#include "rubato/storage/update.hpp"

/// Updates that are not folded yet, added to what has been read of a store: rows, or a whole state.
namespace rubato::detail {

/// A state, and what it counts in a sum of such.
struct weighted_state {
  table_state const* state;
  double weight;
};

/// A row's values somewhere, and what they count in a sum.
template <parameter T>
struct weighted_row {
  std::uint64_t row;
  T const* values;
  double weight;
};

// ---- to states of all rows

/// Adds states of as many rows and elements in a row. Chunk by chunk, so that a chunk stays in the
/// cache while all of them are added to it.
template <parameter T>
void add_states(table_state& to, std::span<weighted_state const> others) {
  for (std::size_t i = 0; i < to.chunks(); ++i)
    for (auto const& other : others) {
      RUBATO_ASSERT(other.state->chunk(i).size_bytes() == to.chunk(i).size_bytes());
      add_scaled(to.chunk(i), other.state->chunk(i).template as<T>(), other.weight);
    }
}

template <parameter T>
void add_row_to(table_state& to, std::uint64_t row, T const* from, std::size_t width, double weight) {
  std::size_t const at = static_cast<std::size_t>(row) * width;
  std::size_t const chunk_size = to.chunk_bytes() / sizeof(T);
  add_row(writable<T>(to.chunk(at / chunk_size)) + at % chunk_size, from, width, weight);
}

/// Adds an update, whole or keyed.
template <parameter T>
void add_update(table_state& to, row_values<T> const& u, double weight, std::size_t width) {
  if (!u.keyed) {
    T const* from = u.values.data();
    for (std::size_t i = 0; i < to.chunks(); ++i) {
      add_scaled(to.chunk(i), from, weight);
      from += to.chunk(i).template size<T>();
    }
    RUBATO_ASSERT(from == u.values.data() + u.values.size());
    return;
  }
  std::size_t const chunk_size = to.chunk_bytes() / sizeof(T);
  for (std::size_t i = 0; i < u.rows.size();) {
    std::size_t const chunk = static_cast<std::size_t>(u.rows[i]) * width / chunk_size;
    i = add_rows_of_chunk(writable<T>(to.chunk(chunk)), chunk, chunk_size, u, i, width, weight);
  }
}

// ---- to states of touched rows

/// Adds rows, which may repeat, in their order; those that are not there count as zero before. Costs
/// O(rows there + n log n).
template <parameter T>
void add_touched_rows(table_state& to, std::vector<weighted_row<T>> rows, std::size_t width) {
  if (rows.empty()) return;
  std::ranges::stable_sort(rows, {}, &weighted_row<T>::row);
  std::span<std::uint64_t const> const held = to.keys();
  std::vector<std::uint64_t> keys;
  keys.reserve(held.size() + rows.size());
  for (auto const& r : rows)
    if (keys.empty() || keys.back() != r.row) keys.push_back(r.row);
  auto const fresh = static_cast<std::ptrdiff_t>(keys.size());
  keys.insert(keys.end(), held.begin(), held.end());
  std::inplace_merge(keys.begin(), keys.begin() + fresh, keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  T const* old = to.empty() ? nullptr : reinterpret_cast<T const*>(to.row_values());
  table_state sum;
  sum.receive_rows(keys.size(), width * sizeof(T), [&](std::span<std::uint64_t> all, std::byte* bytes) {
    auto* values = reinterpret_cast<T*>(bytes);
    std::ranges::copy(keys, all.begin());
    std::size_t next_held = 0;
    auto next = rows.begin();
    for (std::uint64_t const k : keys) {
      if (next_held < held.size() && held[next_held] == k)
        std::copy_n(old + next_held++ * width, width, values);
      else
        std::fill_n(values, width, T{});
      for (; next != rows.end() && next->row == k; ++next)
        add_row(values, next->values, width, next->weight);
      values += width;
    }
  });
  swap(to, sum);
}

/// The rows of keyed updates, in their order.
template <parameter T>
[[nodiscard]] std::vector<weighted_row<T>> rows_of(std::span<weighted_part const> parts,
                                                   std::size_t width) {
  std::vector<weighted_row<T>> rows;
  for (auto const& p : parts) {
    RUBATO_ASSERT(!p.part->whole);
    T const* from = p.part->values.as<T>().data();
    for (std::uint64_t const row : p.part->rows) {
      rows.push_back({row, from, p.weight});
      from += width;
    }
  }
  return rows;
}

// ---- to rows

/// Adds updates, in their order, to rows that have been read: `values[i·width …]` belong to
/// `rows[i]`, which may repeat and come in any order. Costs O(rows) for each whole update, and
/// O(rows + what they hold) for all keyed ones together.
template <parameter T>
void add_to_rows(std::span<std::uint64_t const> rows, T* values, std::size_t width,
                 std::span<weighted_part const> parts) {
  constexpr auto none = static_cast<std::size_t>(-1);
  row_map<std::size_t> last;                     // row → its last place in `rows`
  std::vector<std::size_t> before(rows.size());  // the place before that where it is, too
  if (std::ranges::any_of(parts, [](auto const& p) { return !p.part->rows.empty(); })) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto const [at, fresh] = last.try_emplace(rows[i], i);
      before[i] = fresh ? none : std::exchange(at.value(), i);
    }
  }
  for (auto const& p : parts) {
    T const* const from = p.part->values.as<T>().data();
    if (p.part->whole)
      for (std::size_t i = 0; i < rows.size(); ++i)
        add_row(values + i * width, from + static_cast<std::size_t>(rows[i]) * width, width, p.weight);
    for (std::size_t k = 0; k < p.part->rows.size(); ++k)
      if (auto const at = last.find(p.part->rows[k]); at != last.end())
        for (std::size_t i = at->second; i != none; i = before[i])
          add_row(values + i * width, from + k * width, width, p.weight);
  }
}

}  // namespace rubato::detail
