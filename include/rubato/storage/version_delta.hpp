// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <tsl/robin_map.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/overlay.hpp"
#include "rubato/storage/table_state.hpp"
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
/// change costs O(rows) once, and no value changes but by rounding.
///
/// The sparse layout is a run of rows in ascending order, and a hash table of the few that are not
/// in it yet: at most 64, or a sixteenth of the run. What exceeds that is merged into a new run,
/// which takes both in memory for as long. So a row takes its values and `sizeof(Row)` (what row
/// numbers are kept as), and 2 bytes more at most on average for the table (4 where `Row` has 64
/// bits) once there are thousands: floats of width 1 over a dense base take 8 to 10 bytes. Adding n
/// rows costs O(n log(rows held)), amortized: a row that is new moves at most 16 others, at the
/// merge. Not synchronized.
template <parameter T, class Row>
class version_delta {
 public:
  using value_type = T;

  /// `rows` bounds the local rows; 0 where any number may occur, which is never dense.
  version_delta(std::uint64_t rows, std::size_t width) : rows_(rows), width_(width) {}

  /// Where memory runs out, nothing has been added.
  void add(row_values<T> const& u, double weight) {
    if (u.values.empty()) return;
    RUBATO_ASSERT(rows_ == 0 || std::ranges::all_of(u.rows, [&](auto r) { return r < rows_; }));
    if (is_dense()) return detail::add_update(dense_, u, weight, width_);
    std::size_t const held = held_rows(u);
    if (dense_from(held)) return become_dense(u, weight);  // whatever is here already
    place_list places = places_of(u, held);
    auto const fresh = static_cast<std::size_t>(std::ranges::count(places, nowhere, &place::slot));
    if (dense_from(stored() + fresh)) return become_dense(u, weight);
    if (recent_.size() + fresh > recent_max()) return merge(places, fresh, u, weight);
    if (fresh != 0) make_room(fresh);
    for (place const& p : places)
      add_row(p.slot == nowhere ? append_recent(p.row) : at(p.slot), p, u, weight);
  }

  [[nodiscard]] bool is_dense() const noexcept { return !dense_.empty(); }
  /// How many rows it holds.
  [[nodiscard]] std::uint64_t rows() const noexcept { return is_dense() ? rows_ : stored(); }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return dense_.bytes() + run_.capacity() * sizeof(Row) +
           (run_values_.capacity() + recent_values_.capacity()) * sizeof(T) +
           recent_.bucket_count() * (sizeof(typename slot_map::value_type) + alignof(Row));
  }

  /// to ← to + weight·G[row]
  // not inlined: g++ would warn of loads of vectors where `to` is a single value
  [[gnu::noinline]] void add_to_row(std::uint64_t row, T* to, double weight) const noexcept {
    if (is_dense())
      dense_.for_each_piece(static_cast<std::size_t>(row) * row_bytes(), row_bytes(),
                            [&](std::byte const* from, std::size_t n, std::size_t) {
                              detail::add_row(to, reinterpret_cast<T const*>(from), n / sizeof(T),
                                              weight);
                            });
    else if (std::size_t const slot = find(static_cast<Row>(row)); slot != nowhere)
      detail::add_row(to, at(slot), width_, weight);
  }

  /// Calls `f(row, values)` for each row, in no particular order. @pre `!is_dense()`
  template <class F>
  void for_each_row(F f) const {
    RUBATO_ASSERT(!is_dense());
    for (std::size_t i = 0; i < run_.size(); ++i) f(std::uint64_t{run_[i]}, at(i));
    for (auto const& [row, slot] : recent_) f(std::uint64_t{row}, at(run_.size() + slot));
  }

  /// @pre `is_dense()`
  [[nodiscard]] table_state const& dense() const noexcept { return dense_; }

  /// Rows and their values.
  struct keyed_rows {
    std::vector<std::uint64_t> rows;
    std::vector<T> values;
  };
  /// The rows, ascending, with their values, which it gives up; nothing stays here.
  /// @pre `!is_dense()`
  [[nodiscard]] keyed_rows take_keyed() {
    RUBATO_ASSERT(!is_dense());
    if (!recent_.empty()) {
      place_list none;
      merge(none, 0, {}, 1.0);
    }
    keyed_rows taken{{run_.begin(), run_.end()}, std::exchange(run_values_, {})};
    clear_sparse();
    return taken;
  }

 private:
  using slot_map = tsl::robin_map<Row, std::uint32_t, detail::version_row_hash<Row>>;
  static constexpr float load = 0.8F;  // fuller than usual: deltas are many
  static constexpr Row nowhere_row = std::numeric_limits<Row>::max();
  static constexpr std::size_t nowhere = nowhere_row;

  /// A row of an update, and where it is here. An index fits in what a row fits in.
  struct place {
    Row row;
    Row from;  ///< index in the update
    Row slot;  ///< in the run, then in what is recent; or `nowhere`
  };
  using place_list = boost::container::small_vector<place, 16>;

  [[nodiscard]] bool dense_from(std::size_t stored) const noexcept {
    return rows_ != 0 && stored >= rows_ - rows_ / 2;
  }
  [[nodiscard]] std::size_t stored() const noexcept { return run_.size() + recent_.size(); }
  [[nodiscard]] std::size_t recent_max() const noexcept {
    return std::clamp<std::size_t>(run_.size() / 16, 64, std::numeric_limits<std::uint32_t>::max());
  }

  // ---- what an update holds

  /// How many rows an update holds (a whole one's that are not zero), without a look at which;
  /// fewer when these are enough to become dense.
  [[nodiscard]] std::size_t held_rows(row_values<T> const& u) const noexcept;
  [[nodiscard]] std::size_t nonzero_rows(T const* from, std::size_t n) const noexcept {
    std::uint32_t held = 0;  // as wide as a float, for the vectors' sake
    if (width_ == 1)
      for (std::size_t i = 0; i < n; ++i) held += from[i] != T{} ? 1U : 0U;
    else
      for (std::size_t i = 0; i < n; ++i, from += width_) held += is_zero(from) ? 0U : 1U;
    return held;
  }
  [[nodiscard]] bool is_zero(T const* row) const noexcept {
    return std::all_of(row, row + width_, [](T x) { return x == T{}; });
  }

  /// The `held` rows of an update in ascending order, which lets each be searched for from the
  /// last.
  [[nodiscard]] place_list places_of(row_values<T> const& u, std::size_t held) const;
  static void sort(typename place_list::iterator begin, typename place_list::iterator end) {
    if (!std::ranges::is_sorted(begin, end, {}, &place::row))
      std::ranges::sort(begin, end, {}, &place::row);
  }

  // ---- where rows are

  /// The first in the run that is not below `row`; those before `from` are known to be.
  [[nodiscard]] std::size_t lower_bound(Row row, std::size_t from) const noexcept {
    std::size_t to = from;  // in growing steps: mostly it is near
    for (std::size_t step = 1; to < run_.size() && run_[to] < row; step *= 2) {
      from = to + 1;
      to += step;
    }
    auto const i = [&](std::size_t k) { return run_.begin() + static_cast<std::ptrdiff_t>(k); };
    auto const found = std::lower_bound(i(from), i(std::min(to, run_.size())), row);
    return static_cast<std::size_t>(found - run_.begin());
  }
  /// The row's slot, or `nowhere`; moves `from` on to where the next row's search begins.
  [[nodiscard]] std::size_t find(Row row, std::size_t& from) const noexcept {
    from = lower_bound(row, from);
    if (from < run_.size() && run_[from] == row) return from;
    auto const recent = recent_.find(row);
    return recent == recent_.end() ? nowhere : run_.size() + recent->second;
  }
  [[nodiscard]] std::size_t find(Row row) const noexcept {
    auto const found = std::ranges::lower_bound(run_, row);
    auto from = static_cast<std::size_t>(found - run_.begin());
    return find(row, from);
  }
  [[nodiscard]] T const* at(std::size_t slot) const noexcept { return values_at(*this, slot); }
  [[nodiscard]] T* at(std::size_t slot) noexcept { return values_at(*this, slot); }
  template <class Self>
  [[nodiscard]] static auto* values_at(Self& self, std::size_t slot) noexcept {
    std::size_t const in_run = self.run_.size();
    return slot < in_run ? self.run_values_.data() + slot * self.width_
                         : self.recent_values_.data() + (slot - in_run) * self.width_;
  }

  void add_row(T* to, place const& p, row_values<T> const& u, double weight) const noexcept {
    detail::add_row(to, u.values.data() + static_cast<std::size_t>(p.from) * width_, width_,
                    weight);
  }

  // ---- new rows

  void make_room(std::size_t fresh) {
    std::size_t const n = recent_.size() + fresh;
    if (recent_values_.capacity() < n * width_) {
      std::size_t const grown = recent_.size() + recent_.size() / 2;
      recent_values_.reserve(std::max(n, std::min(grown, recent_max())) * width_);
    }
    recent_.max_load_factor(load);
    if (static_cast<float>(n) > load * static_cast<float>(recent_.bucket_count()))
      recent_.reserve(n);  // which always moves everything
  }
  /// A row's values, zero. @pre there is room, and no such row
  T* append_recent(Row row) {
    recent_.try_emplace(row, static_cast<std::uint32_t>(recent_.size()));
    recent_values_.resize(recent_.size() * width_);
    return recent_values_.data() + recent_values_.size() - width_;
  }

  /// Adds the update, whose `fresh` rows are new, and makes all rows one run.
  void merge(place_list& places, std::size_t fresh, row_values<T> const& u, double weight);
  [[nodiscard]] T const* at_run(std::size_t i) const noexcept {
    return run_values_.data() + i * width_;
  }
  /// Leaves the rows that are not in the run: an update's new ones, and those that are recent.
  void keep_joining(place_list& places) const;

  void become_dense(row_values<T> const& u, double weight);

  [[nodiscard]] std::size_t row_bytes() const noexcept { return width_ * sizeof(T); }

  void clear_sparse() noexcept {
    run_ = std::vector<Row>();
    run_values_ = std::vector<T>();
    recent_ = slot_map();
    recent_values_ = std::vector<T>();
  }

  std::uint64_t rows_;
  std::size_t width_;
  std::vector<Row> run_;  // ascending
  std::vector<T> run_values_;
  slot_map recent_;  // row → index of its values
  std::vector<T> recent_values_;
  table_state dense_{};  // nobody shares its chunks; empty in the sparse layout
};

}  // namespace rubato

#include "rubato/storage/impl/version_delta.hpp"
