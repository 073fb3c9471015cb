// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/coding.hpp"
#include "rubato/worker/accumulator.hpp"

namespace rubato::detail {

/// The rows, by where they stand in it, of which rounding has left something. A row of zeros must not go, for to a lazy
/// merge it is an update.
template <std::floating_point T>
[[nodiscard]] std::vector<std::size_t> rows_left(update const& left, std::size_t width) {
  std::span<T const> const values = left.values.template as<T>();
  std::vector<std::size_t> out;
  for (std::size_t at = 0; at < values.size(); at += width)
    if (std::ranges::any_of(values.subspan(at, width), [](T x) { return x != T{}; })) out.push_back(at / width);
  return out;
}

/// Adds to a part of a commit all of what rounding has taken away before, and keeps nothing. Where memory ends, all of
/// it is still there, and nothing but zeros has been added.
template <std::floating_point T>
void add_all_left(accumulator& left, accumulator& part, std::size_t row_bytes) {
  update const* const u = left.current();
  if (u == nullptr) return;
  std::size_t const width = row_bytes / sizeof(T);
  std::vector<std::size_t> const rows = rows_left<T>(*u, width);
  auto const number = [u](std::size_t i) { return u->whole ? std::uint64_t{i} : u->rows[i]; };
  std::vector<T> const nothing(width);
  part.expect_rows(rows.size());
  for (std::size_t const i : rows) part.add_row(number(i), nothing.data());  // room: from here on nothing fails
  T const* const from = u->values.template as<T>().data();
  for (std::size_t const i : rows) part.add_row(number(i), from + i * width);
  (void)left.release();
}

/// One part of a commit while it is rounded. Until it is finished it can be taken back.
template <std::floating_point T>
class part_to_round {
 public:
  part_to_round(update& u, accumulator& left, std::size_t row_bytes)
      : u_(u),
        left_(left),
        width_(row_bytes / sizeof(T)),
        values_(u.values.template as<T>().data()),
        pushed_(values_, values_ + u.values.template as<T>().size()) {}

  /// Adds what is left of the same rows.
  void add_left() {
    for_each_stretch([&](std::size_t first, std::size_t n, std::uint64_t row) {
      if (std::byte const* const before = left_.find(row))
        add_row(values_ + first, reinterpret_cast<T const*>(before), n);
    });
  }
  /// After it was rounded: room for what will be left.
  void make_room() {
    std::vector<T> const nothing(width_);
    for_each_stretch([&](std::size_t first, std::size_t n, std::uint64_t row) {
      bool is_left = left_.find(row) != nullptr;
      for (std::size_t i = first; i < first + n && !is_left; ++i) is_left = away(pushed_[i], values_[i]) != T{};
      if (is_left) left_.add_row(row, nothing.data());
    });
  }
  /// Keeps what rounding has taken away. @pre there is room for it
  void keep_rest() {
    for_each_stretch([&](std::size_t first, std::size_t n, std::uint64_t row) {
      auto* const rest = reinterpret_cast<T*>(left_.find(row));
      for (std::size_t i = 0; rest != nullptr && i < n; ++i)
        rest[i] = away(pushed_[first + i] + rest[i], values_[first + i]);
    });
  }
  void take_back() noexcept { std::copy(pushed_.begin(), pushed_.end(), values_); }

 private:
  /// Calls `f(first, count, row)` for elements of rows that lie side by side here and in what is left.
  template <class F>
  void for_each_stretch(F f) {
    if (u_.whole) return f(std::size_t{0}, pushed_.size(), std::uint64_t{0});
    for (std::size_t i = 0; i < u_.rows.size(); ++i) f(i * width_, width_, u_.rows[i]);
  }
  [[nodiscard]] static T away(T sum, T rounded) noexcept {
    T const rest = sum - rounded;
    return std::isfinite(rest) ? rest : T{};
  }

  update& u_;
  accumulator& left_;
  std::size_t width_;
  T* values_;
  std::vector<T> pushed_;
};

/// Rounds a part of a commit to what the server will get of it (see `table_codec`). What rounding takes away stays in
/// `left`, and is added where the same rows are committed again: a row goes only where it is pushed. What is no finite
/// number leaves nothing behind. Where memory ends, nothing is lost and nothing counts twice.
/// @param last no commit comes after it: all that is left goes, and nothing stays
template <std::floating_point T>
void round_with_feedback(coding const& codec, accumulator& left, accumulator& part, std::size_t row_bytes, bool last) {
  if (last) add_all_left<T>(left, part, row_bytes);
  if (part.empty()) return;
  update& u = part.all();
  if (u.whole && !last) left.fill();
  part_to_round<T> to_round(u, left, row_bytes);
  try {
    to_round.add_left();
    codec.round(u.values.bytes());
    if (!last) to_round.make_room();
  } catch (...) {
    to_round.take_back();
    throw;
  }
  u.coded = codec.bytes(u.values.size_bytes());
  if (!last) to_round.keep_rest();
}

}  // namespace rubato::detail
