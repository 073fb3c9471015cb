// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/block.hpp"
#include "rubato/storage/concepts.hpp"
#include "rubato/storage/table_state.hpp"

// What is added to one chunk of an array that others may refer to.
namespace rubato::detail {

/// Where the next state of an array goes, if not into the array itself: since somebody else refers to it, or since it
/// is on the heap, as there was no room in the memory that it belongs to, and now there is.
inline block_ref next_place(block_ref const& values, block_memory* memory) {
  if (!values.unique()) return block_ref(values.size_bytes(), memory);
  if (memory == nullptr || values.is_elsewhere()) return {};
  return block_ref::elsewhere(values.size_bytes(), *memory);
}

/// Whether it goes into the array itself. Who is told no asks for a place: that there is a reader may be over by then.
inline bool stays_in_place(block_ref const& values, block_memory const* memory) noexcept {
  return values.unique() && (memory == nullptr || values.is_elsewhere());
}

/// The array, writable; a copy takes its place where it has to.
template <parameter T>
T* writable(block_ref& values, block_memory* memory = nullptr) {
  if (block_ref copy = next_place(values, memory); copy) {
    std::copy_n(values.as<T>(), values.size<T>(), copy.mutable_as<T>());
    values = std::move(copy);
  }
  return values.mutable_as<T>();
}

/// to ← to + weight·from; where a copy must be made, in the same pass.
template <parameter T>
void add_scaled(block_ref& to, T const* from, double weight, block_memory* memory = nullptr) {
  block_ref next = next_place(to, memory);
  if (!next) return add_scaled(to.mutable_as<T>(), from, to.size<T>(), weight);
  add_scaled_into(next.mutable_as<T>(), to.as<T>(), from, to.size<T>(), weight);
  to = std::move(next);
}

/// How many rows from `rows[first]` on follow one another, up to `limit`.
[[nodiscard]] inline std::size_t consecutive(std::span<std::uint64_t const> rows, std::size_t first,
                                             std::size_t limit) noexcept {
  limit = std::min(limit, rows.size() - first);
  std::size_t n = 1;
  while (n < limit && rows[first + n] == rows[first] + n) ++n;
  return n;
}

/// Adds keyed values from `u.rows[i]` on to their chunk `to`, which is the one of this number, as long as they are in
/// it; returns the index of the first that is not. Consecutive rows are added in one go.
template <parameter T>
std::size_t add_rows_of_chunk(T* to, std::size_t chunk, std::size_t chunk_size, row_values<T> const& u, std::size_t i,
                              std::size_t width, double weight) noexcept {
  std::size_t const begin = chunk * chunk_size;
  auto const element = [&] { return static_cast<std::size_t>(u.rows[i]) * width; };
  for (std::size_t at = element() - begin; at < chunk_size;) {  // an element before the chunk is far behind it
    std::size_t const n = consecutive(u.rows, i, (chunk_size - at) / width);
    add_row(to + at, u.values.data() + i * width, n * width, weight);
    i += n;
    if (i == u.rows.size()) break;
    at = element() - begin;
  }
  return i;
}

}  // namespace rubato::detail
