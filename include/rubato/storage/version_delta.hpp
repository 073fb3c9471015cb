// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <tsl/robin_map.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/core/null_mutex.hpp"
#include "rubato/storage/dense_store.hpp"
#include "rubato/storage/update.hpp"

namespace rubato {

namespace detail {

template <class Row>
struct version_row_hash {
  [[nodiscard]] std::size_t operator()(Row row) const noexcept {
    return static_cast<std::size_t>(mix64(row));
  }
};

}  // namespace detail

/// G(v): the weighted sum of one version's updates on one server.
///
/// Holds the rows that are not zero while they are fewer than half, all of them from then on; the
/// change costs O(rows) once, and no value changes but by rounding. Adding costs O(what the update
/// holds). A row in the sparse layout takes its values, and 15 to 30 bytes more where `Row` (what row
/// numbers are kept as) has 32 bits, 20 to 40 where it has 64. Not synchronized.
template <class T, class Row>
class version_delta {
 public:
  using value_type = T;

  /// `rows` bounds the local rows; 0 where any number may occur, which is never dense.
  version_delta(std::uint64_t rows, std::size_t width) : rows_(rows), width_(width) {}

  /// @throws error when more than 2³² rows are not zero in the sparse layout
  void add(update<T> const& u, double weight) {
    if (u.empty()) return;
    if (is_dense()) return dense_.add(u, weight, width_);
    std::size_t const fresh = count_fresh(u);
    if (dense_from(slots_.size() + fresh)) return become_dense(u, weight);
    if (fresh != 0) make_room(fresh);  // first: where memory runs out, nothing has been added
    for_each_row_of(u, [&](std::uint64_t row, T const* from) {
      detail::add_row(touch(row), from, width_, weight);
      return true;
    });
  }

  [[nodiscard]] bool is_dense() const noexcept { return !dense_.empty(); }
  /// How many rows it holds.
  [[nodiscard]] std::uint64_t rows() const noexcept { return is_dense() ? rows_ : slots_.size(); }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return dense_.bytes() + values_.capacity() * sizeof(T) +
           slots_.bucket_count() * (sizeof(typename slot_map::value_type) + alignof(Row));
  }

  /// to ← to + weight·G[row]
  void add_to_row(std::uint64_t row, T* to, double weight) const noexcept {
    if (is_dense())
      dense_.for_each_piece(
          static_cast<std::size_t>(row) * width_, width_,
          [&](T const* from, std::size_t n, std::size_t) { detail::add_row(to, from, n, weight); });
    else if (auto const at = slots_.find(static_cast<Row>(row)); at != slots_.end())
      detail::add_row(to, values_.data() + at->second * width_, width_, weight);
  }

  /// Calls `f(row, values)` for each row, in no particular order. @pre `!is_dense()`
  template <class F>
  void for_each_row(F f) const {
    RUBATO_ASSERT(!is_dense());
    for (auto const& [row, slot] : slots_) f(std::uint64_t{row}, values_.data() + slot * width_);
  }

  /// @pre `is_dense()`
  [[nodiscard]] dense_snapshot<T> const& dense() const noexcept { return dense_; }

  /// The rows as an update, which takes over their values; nothing stays here. @pre `!is_dense()`
  [[nodiscard]] update<T> take_keyed() {
    RUBATO_ASSERT(!is_dense());
    update<T> u;
    u.rows.resize(slots_.size());
    for (auto const& [row, slot] : slots_) u.rows[slot] = row;
    u.values = std::exchange(values_, {});
    slots_ = {};
    return u;
  }

 private:
  using slot_map = tsl::robin_map<Row, std::uint32_t, detail::version_row_hash<Row>>;
  static constexpr float load = 0.8F;  // fuller than usual: deltas are many

  [[nodiscard]] bool dense_from(std::size_t stored) const noexcept {
    return rows_ != 0 && stored >= rows_ - rows_ / 2;
  }

  /// Calls `f(row, values)` for an update's rows (a whole one's that are not zero) while it returns
  /// true.
  template <class F>
  void for_each_row_of(update<T> const& u, F f) const {
    std::size_t const n = u.values.size() / width_;
    T const* from = u.values.data();
    for (std::size_t i = 0; i < n; ++i, from += width_) {
      if (u.whole && std::all_of(from, from + width_, [](T x) { return x == T{}; })) continue;
      if (!f(u.whole ? i : u.rows[i], from)) return;
    }
  }

  /// How many rows would be new here; fewer when these are enough to become dense.
  [[nodiscard]] std::size_t count_fresh(update<T> const& u) const {
    std::size_t fresh = 0;
    for_each_row_of(u, [&](std::uint64_t row, T const*) {
      RUBATO_ASSERT(rows_ == 0 || row < rows_);
      if (!slots_.contains(static_cast<Row>(row))) ++fresh;
      return !dense_from(slots_.size() + fresh);
    });
    return fresh;
  }

  void make_room(std::size_t fresh) {
    constexpr std::uint64_t slots_max = std::uint64_t{1} << 32;
    std::uint64_t const most = rows_ == 0 ? slots_max : std::min((rows_ - 1) / 2, slots_max);
    std::size_t const rows = slots_.size() + fresh;
    if (rows > slots_max)
      throw error(errc::wrong_size,
                  "multi_version: one version has touched more than 2^32 rows on one server, "
                  "expected no more");
    if (values_.capacity() < rows * width_) {
      std::size_t const grown = slots_.size() + slots_.size() / 2;
      values_.reserve(std::max(rows, std::min<std::size_t>(grown, most)) * width_);
    }
    slots_.max_load_factor(load);
    if (static_cast<float>(rows) > load * static_cast<float>(slots_.bucket_count()))
      slots_.reserve(rows);  // which always moves everything
  }

  /// The row's values, zero when they are new. @pre there is room
  T* touch(std::uint64_t row) {
    auto const [at, fresh] =
        slots_.try_emplace(static_cast<Row>(row), static_cast<std::uint32_t>(slots_.size()));
    if (fresh) values_.resize(slots_.size() * width_);
    return values_.data() + at->second * width_;
  }

  void become_dense(update<T> const& u, double weight) {
    dense_snapshot<T> all;
    dense_store<T, null_mutex>(rows_, width_, [&](std::size_t first, std::size_t n, T* out) {
      if (u.whole)
        std::transform(u.values.data() + first, u.values.data() + first + n, out,
                       [w = static_cast<T>(weight)](T x) { return w * x; });
      else
        std::fill_n(out, n, T{});
    }).snapshot(all);
    if (!u.whole) all.add(u, weight, width_);
    all.add(take_keyed(), 1.0, width_);
    dense_ = std::move(all);
  }

  std::uint64_t rows_;
  std::size_t width_;
  slot_map slots_;             // row → index of its values
  std::vector<T> values_;
  dense_snapshot<T> dense_{};  // nobody shares its chunks; empty in the sparse layout
};

}  // namespace rubato
