// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/coding.hpp"
#include "rubato/worker/accumulator.hpp"

namespace rubato::detail {

/// Adds to a part of a commit all of what rounding has taken away before, and keeps nothing.
template <std::floating_point T>
void add_all_left(accumulator& left, accumulator& part, std::size_t row_bytes) {
  update const* const u = left.current();
  if (u == nullptr) return;
  T const* from = u->values.template as<T>().data();
  if (u->whole) part.add_whole<T>([&](auto add) { add(0, from, u->values.template as<T>().size()); });
  for (std::uint64_t const row : u->rows) {
    part.add_row(row, from);
    from += row_bytes / sizeof(T);
  }
  (void)left.release();
}

/// Rounds a part of a commit to what the server will get of it (see `table_codec`). What rounding takes away stays in
/// `left`, and is added where the same rows are committed again: a row goes only where it is pushed. What is no finite
/// number leaves nothing behind.
/// @param last no commit comes after it: all that is left goes, and nothing stays
template <std::floating_point T>
void round_with_feedback(coding const& codec, accumulator& left, accumulator& part, std::size_t row_bytes, bool last) {
  std::size_t const width = row_bytes / sizeof(T);
  if (last) add_all_left<T>(left, part, row_bytes);
  if (part.empty()) return;
  update& u = part.all();
  std::size_t const rows = u.values.size_bytes() / row_bytes;
  // Calls `f(first, count, row)` for elements of rows that lie side by side here and in what is left.
  auto const for_each_stretch = [&](auto f) {
    if (u.whole) return f(std::size_t{0}, rows * width, std::uint64_t{0});
    for (std::size_t i = 0; i < rows; ++i) f(i * width, width, u.rows[i]);
  };
  T* const values = u.values.template as<T>().data();
  if (u.whole && !last) left.fill();
  for_each_stretch([&](std::size_t first, std::size_t n, std::uint64_t row) {
    if (std::byte const* const before = left.find(row))
      add_row(values + first, reinterpret_cast<T const*>(before), n);
  });
  std::vector<T> lost(values, values + rows * width);
  codec.round(u.values.bytes());
  u.coded = codec.bytes(u.values.size_bytes());
  if (last) return;
  for (std::size_t i = 0; i < lost.size(); ++i) {
    T const away = lost[i] - values[i];
    lost[i] = std::isfinite(away) ? away : T{};
  }
  for_each_stretch([&](std::size_t first, std::size_t n, std::uint64_t row) {
    T const* const from = lost.data() + first;
    if (std::byte* const before = left.find(row)) std::copy_n(from, n, reinterpret_cast<T*>(before));
    else if (std::any_of(from, from + n, [](T x) { return x != T{}; })) left.add_row(row, from);
  });
}

}  // namespace rubato::detail
