// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/row_map.hpp"
#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/update.hpp"
#include "rubato/storage/update_filter.hpp"
#include "rubato/storage/shared_update.hpp"

namespace rubato {

namespace detail {

using row_slots = row_map<std::size_t>;  // row → index in a keyed update

/// Where an update, const or not, has a row's values; nullptr where it has none. A whole one needs no slots.
template <class Update>
[[nodiscard]] auto find_row(Update& u, row_slots const* slots, std::uint64_t row, std::size_t row_bytes) noexcept
    -> decltype(u.values.data()) {
  if (u.whole) return u.values.data() + static_cast<std::size_t>(row) * row_bytes;
  if (slots == nullptr) return nullptr;
  auto const at = slots->find(row);
  return at == slots->end() ? nullptr : u.values.data() + at->second * row_bytes;
}

}  // namespace detail

/// An update that has been committed, with the means to find its rows.
struct committed_update {
  clock_index stamp;
  shared_update part;
  std::unique_ptr<detail::row_slots> slots;  ///< of a keyed one

  [[nodiscard]] std::byte const* find(std::uint64_t row, std::size_t row_bytes) const noexcept {
    return detail::find_row(*part, slots.get(), row, row_bytes);
  }
};

/// What a worker has pushed to one server's part of a table since its last commit, summed.
///
/// Starts keyed and holds only the rows that were pushed; becomes whole when a whole push comes, or, if it may pad,
/// when half of the rows are there. Memory O(rows pushed), time O(elements pushed). The element type is
/// always the table's.
class accumulator {
 public:
  /// `rows` bounds the local rows; 0 where any number may occur, which is never whole. `may_pad`: rows that were not
  /// pushed may be committed as zeros, where that is less work; not to a lazy merge, for which zeros are an update.
  accumulator(std::uint64_t rows, std::size_t row_bytes, update_pool pool, bool may_pad = true)
      : rows_(rows), row_bytes_(row_bytes), pool_(std::move(pool)), may_pad_(may_pad) {}

  [[nodiscard]] bool empty() const noexcept { return !current_ || current_->empty(); }

  /// Adds values for all elements, given in pieces: `pieces(add)` calls `add(first, from, count)`
  /// for stretches that together cover every element once.
  template <parameter T, class Pieces>
  void add_whole(Pieces pieces) {
    bool const first = empty();
    make_whole(!first);
    T* const to = current_->values.as<T>().data();
    if (first) pieces([to](std::size_t at, T const* from, std::size_t n) { std::copy_n(from, n, to + at); });
    else pieces([to](std::size_t at, T const* from, std::size_t n) { detail::add_scaled(to + at, from, n, 1.0); });
  }

  /// Room for values of all elements, which mean nothing yet: what they become may be `put`. @pre rows are bounded
  [[nodiscard]] update_buffer room() const;

  template <parameter T>
  void add_row(std::uint64_t row, T const* from) {
    std::size_t const width = row_bytes_ / sizeof(T);
    // Counts are pushed to the same rows again and again: these are found without the call that may need memory.
    if (std::byte* const sum = find(row)) return detail::add_row(reinterpret_cast<T*>(sum), from, width);
    auto const [at, is_new] = row_of(row);
    auto* const to = reinterpret_cast<T*>(at);
    if (is_new)
      for (std::size_t i = 0; i < width; ++i) to[i] = T{} + from[i];
    else
      detail::add_row(to, from, width);
  }

  /// Whether `append_row` may be called for up to so many rows: nothing is there, and these are fewer than half.
  [[nodiscard]] bool may_start(std::size_t n) const noexcept { return empty() && (rows_ == 0 || 2 * n < rows_); }
  /// Adds a row that is not there. Such rows are indexed once one is looked for, which most often none is.
  /// @pre `may_start`, or only this function has been called since
  template <parameter T>
  void append_row(std::uint64_t row, T const* from) {
    if (!current_) begin();
    indexed_ = false;
    auto* const to = reinterpret_cast<T*>(new_row(row));
    for (std::size_t i = 0; i < row_bytes_ / sizeof(T); ++i) to[i] = T{} + from[i];
  }
  /// The same for many.
  template <parameter T>
  void append_rows(std::span<std::uint64_t const> rows, T const* from) {
    if (!current_) begin();
    indexed_ = false;
    std::size_t const n = rows.size() * row_bytes_ / sizeof(T);
    auto* const to = reinterpret_cast<T*>(new_rows(rows));
    for (std::size_t i = 0; i < n; ++i) to[i] = T{} + from[i];
  }

  /// The sum for a row; nullptr where nothing was pushed.
  [[nodiscard]] std::byte* find(std::uint64_t row) {
    if (!indexed_) index();
    return empty() ? nullptr : detail::find_row(*current_, slots_.get(), row, row_bytes_);
  }

  [[nodiscard]] update const* current() const noexcept { return empty() ? nullptr : &*current_; }

  /// The update to commit, and a fresh start.
  [[nodiscard]] shared_update take();
  /// The same, with the means to find its rows.
  [[nodiscard]] committed_update take_indexed(clock_index stamp);
  /// Such a one is needed no more: its means serve the next.
  void reuse(committed_update&& over) noexcept {
    if (slots_ || !over.slots) return;
    slots_ = std::move(over.slots);
    detail::clear(*slots_);  // rows that have been appended since are still to be indexed
  }

  // ---- for a filter that splits it elsewhere

  /// All that is there, to be given back in part, and a fresh start.
  [[nodiscard]] update_buffer release() noexcept {
    clear_slots();
    return std::exchange(current_, {});
  }
  /// The same in two.
  template <parameter T>
  [[nodiscard]] divided_update divide(update_filter const& filter) {
    if (filter.off() || empty()) return {release(), {}};
    update_buffer carried = split<T>(filter);
    return {release(), std::move(carried)};
  }
  /// What was released, or a part of it. @pre nothing is there
  void put(update_buffer part) { start_with(std::move(part)); }
  /// Every row is there, zero where nothing was pushed. @pre rows are bounded
  void fill() {
    if (empty()) current_ = {};
    make_whole(true);
  }
  /// So many rows are going to be added: becomes whole at once where it would in the end.
  void expect_rows(std::size_t n) { if (may_pad_ && rows_ != 0 && 2 * n >= rows_) fill(); }
  /// @pre something is there
  [[nodiscard]] update& all() noexcept { return *current_; }

  /// The update to commit, without its small entries; those that are carried start the next one.
  template <parameter T>
  [[nodiscard]] shared_update take(update_filter const& filter) {
    if (filter.off() || empty()) return take();
    update_buffer carried = split<T>(filter);
    auto sent = take();
    start_with(std::move(carried));
    return sent;
  }
  /// The same, with the means to find its rows.
  template <parameter T>
  [[nodiscard]] committed_update take_indexed(clock_index stamp, update_filter const& filter) {
    if (filter.off() || empty()) return take_indexed(stamp);
    if (!indexed_) index();
    update_buffer carried = split<T>(filter);
    // Rows that stay keep their order: if all did, their places are the same.
    if (empty()) clear_slots();
    else if (current_->rows.size() != (slots_ ? slots_->size() : 0)) index();
    auto sent = take_indexed(stamp);
    start_with(std::move(carried));
    return sent;
  }

 private:
  /// Where a row's sum is, and whether there is none yet: it is pushed for the first time.
  std::pair<std::byte*, bool> row_of(std::uint64_t row);
  void begin();
  /// Room for a row's values, behind the others'.
  [[nodiscard]] std::byte* new_row(std::uint64_t row) {
    update& u = *current_;
    u.rows.push_back(row);
    try {
      return u.values.extend(row_bytes_);
    } catch (...) {
      u.rows.pop_back();
      throw;
    }
  }
  [[nodiscard]] std::byte* new_rows(std::span<std::uint64_t const> rows);
  /// Spreads the keyed rows over a whole update; its other elements are zero where `keep` says that
  /// they will not all be overwritten.
  void make_whole(bool keep);

  // ---- the filter

  /// Leaves in `current_` what is to be sent, if anything, and returns what is to be carried, if
  /// anything. `slots_` are still those from before. @pre there is a current update
  template <parameter T>
  [[nodiscard]] update_buffer split(update_filter const& given) {
    update_filter const filter = given.narrowed(std::span<T const>(current_->values.as<T>()));
    auto const sent = [filter](T x) { return filter.sends(x); };
    auto const small = [filter](T x) { return x != T{} && !filter.sends(x); };
    update& all = *current_;
    update_buffer carried;
    if (filter.small == small_entries::carry) {
      if (std::size_t const count = rows_with<T>(all, small)) {
        carried = pool_.take();
        pick<T>(all, small, count, *carried);
      }
    }
    std::size_t const count = rows_with<T>(all, sent);
    if (count == 0) {
      current_ = {};
    } else if (all.whole && !worth_whole(count)) {
      auto keyed = pool_.take();
      pick<T>(all, sent, count, *keyed);
      current_ = std::move(keyed);
    } else {
      pick<T>(all, sent, count, all);
    }
    return carried;
  }

  /// Whether so many rows are all, or take no more bytes whole, with zeros for the others, than with their numbers.
  [[nodiscard]] bool worth_whole(std::size_t count) const noexcept {
    if (!may_pad_) return count == rows_;
    return count * (sizeof(std::uint64_t) + row_bytes_) >= static_cast<std::size_t>(rows_) * row_bytes_;
  }

  /// How many rows have an entry that is `wanted`.
  template <parameter T, class Wanted>
  [[nodiscard]] std::size_t rows_with(update const& u, Wanted wanted) const {
    std::size_t const width = row_bytes_ / sizeof(T);
    std::span<T const> const values = u.values.as<T>();
    std::size_t count = 0;
    for (std::size_t i = 0; i < values.size(); i += width)
      if (std::any_of(values.data() + i, values.data() + i + width, wanted)) ++count;
    return count;
  }

  /// to ← the entries of `from` that are `wanted`, which are in `count` rows. `to` may be `from`
  /// itself, unless a whole one becomes keyed.
  template <parameter T, class Wanted>
  void pick(update const& from, Wanted wanted, std::size_t count, update& to) const {
    auto const copy = [&](T const* first, std::size_t n, T* out) {
      std::transform(first, first + n, out, [&](T x) { return wanted(x) ? x : T{}; });
    };
    bool const in_place = &from == &to;
    to.whole = from.whole && worth_whole(count);
    if (to.whole) {
      to.values.resize_bytes(from.values.size_bytes());
      copy(from.values.as<T>().data(), from.values.as<T>().size(), to.values.as<T>().data());
      return;
    }
    if (!in_place) {
      to.rows.resize(count);
      to.values.resize_bytes(count * row_bytes_);
    }
    std::size_t const width = row_bytes_ / sizeof(T);
    std::size_t const rows = from.values.size_bytes() / row_bytes_;
    std::size_t slot = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      T const* const row = from.values.as<T>().data() + i * width;
      if (std::none_of(row, row + width, wanted)) continue;
      copy(row, width, to.values.as<T>().data() + slot * width);
      to.rows[slot++] = from.whole ? i : from.rows[i];
    }
    if (in_place) {
      to.rows.resize(count);
      to.values.resize_bytes(count * row_bytes_);
    }
  }

  void start_with(update_buffer carried);
  /// Makes `slots_` say where the current update's rows are.
  void index();
  [[nodiscard]] detail::row_slots& slots() {
    if (!slots_) slots_ = std::make_unique<detail::row_slots>();
    return *slots_;
  }
  void clear_slots() noexcept {
    indexed_ = true;
    if (slots_) detail::clear(*slots_);
  }

  std::uint64_t rows_;
  std::size_t row_bytes_;
  update_pool pool_;
  bool may_pad_;
  update_buffer current_;
  std::unique_ptr<detail::row_slots> slots_;  ///< apart: who pushes whole tables has none
  bool indexed_ = true;                       ///< whether `slots_` know the rows of a keyed update
};

}  // namespace rubato
