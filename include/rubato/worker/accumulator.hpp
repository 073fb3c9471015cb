// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/row_map.hpp"
#include "rubato/storage/block.hpp"
#include "rubato/storage/update.hpp"
#include "rubato/storage/update_filter.hpp"
#include "rubato/worker/update_pool.hpp"

namespace rubato {

namespace detail {
using row_slots = row_map<std::size_t>;  // row → index in a keyed update

template <class T>
[[nodiscard]] T const* find_row(update<T> const& u, row_slots const& slots, std::uint64_t row,
                                std::size_t width) noexcept {
  if (u.whole) return u.values.data() + static_cast<std::size_t>(row) * width;
  auto const at = slots.find(row);
  return at == slots.end() ? nullptr : u.values.data() + at->second * width;
}
}  // namespace detail

/// An update that has been committed, with the means to find its rows.
template <class T>
struct committed_update {
  clock_index stamp;
  std::shared_ptr<update<T> const> part;
  detail::row_slots slots;
};

/// What a worker has pushed to one server's part of a table since its last commit, summed.
///
/// Starts keyed and holds only the rows that were pushed; becomes whole when a whole push comes, or
/// when half of the rows are there. Memory O(rows pushed), time O(elements pushed).
template <class T>
class accumulator {
 public:
  /// `rows` bounds the local rows; 0 where any number may occur, which is never whole.
  accumulator(std::uint64_t rows, std::size_t width, update_pool<T> pool)
      : rows_(rows), width_(width), pool_(std::move(pool)), nothing_(pool_.nothing()) {}

  [[nodiscard]] bool empty() const noexcept { return !current_ || current_->empty(); }

  /// Adds values for all elements, given in pieces: `pieces(add)` calls `add(first, from, count)`
  /// for stretches that together cover every element once.
  template <class Pieces>
  void add_whole(Pieces pieces) {
    bool const first = empty();
    make_whole(!first);
    T* const to = current_->values.data();
    if (first)
      pieces([to](std::size_t at, T const* from, std::size_t n) { std::copy_n(from, n, to + at); });
    else
      pieces([to](std::size_t at, T const* from, std::size_t n) {
        detail::add_scaled(to + at, from, n, 1.0);
      });
  }

  void add_row(std::uint64_t row, T const* from) {
    detail::add_row(row_of(row), from, width_);
  }

  /// The sum for a row; nullptr where nothing was pushed.
  [[nodiscard]] T const* find(std::uint64_t row) const noexcept {
    return empty() ? nullptr : detail::find_row(*current_, slots_, row, width_);
  }

  [[nodiscard]] update<T> const* current() const noexcept { return empty() ? nullptr : &*current_; }

  /// The update to commit, and a fresh start.
  [[nodiscard]] std::shared_ptr<update<T> const> take() {
    detail::clear(slots_);
    if (empty()) return nothing_;
    return std::exchange(current_, nullptr);
  }
  /// The same, with the means to find its rows.
  [[nodiscard]] committed_update<T> take_indexed(clock_index stamp) {
    detail::row_slots slots = std::exchange(slots_, {});
    return {stamp, take(), std::move(slots)};
  }

  /// The update to commit, without its small entries; those that are carried start the next one.
  [[nodiscard]] std::shared_ptr<update<T> const> take(update_filter const& filter) {
    if (filter.off() || empty()) return take();
    std::shared_ptr<update<T>> carried = split(filter);
    auto sent = take();
    start_with(std::move(carried));
    return sent;
  }
  /// The same, with the means to find its rows.
  [[nodiscard]] committed_update<T> take_indexed(clock_index stamp, update_filter const& filter) {
    if (filter.off() || empty()) return take_indexed(stamp);
    std::shared_ptr<update<T>> carried = split(filter);
    // Rows that stay keep their order: if all did, their places are the same.
    if (empty()) detail::clear(slots_);
    else if (current_->rows.size() != slots_.size()) index();
    auto sent = take_indexed(stamp);
    start_with(std::move(carried));
    return sent;
  }

 private:
  T* row_of(std::uint64_t row) {
    if (!current_) begin(false);
    if (current_->whole) return current_->values.data() + static_cast<std::size_t>(row) * width_;
    if (auto const at = slots_.find(row); at != slots_.end())
      return current_->values.data() + at->second * width_;
    std::size_t const slot = current_->rows.size();
    if (rows_ != 0 && 2 * slot >= std::max<std::uint64_t>(rows_, 16)) {
      make_whole(true);
      return row_of(row);
    }
    // The entry last: where memory runs out, none points to values that are not there.
    current_->values.resize((slot + 1) * width_);
    current_->rows.push_back(row);
    slots_.emplace(row, slot);
    return current_->values.data() + slot * width_;
  }

  void begin(bool whole) {
    current_ = pool_.take();
    current_->whole = whole;
    if (!whole) current_->values.clear();
  }

  /// Spreads the keyed rows over a whole update; its other elements are zero where `keep` says that
  /// they will not all be overwritten.
  void make_whole(bool keep) {
    std::size_t const elements = static_cast<std::size_t>(rows_) * width_;
    if (current_ && current_->whole) return;
    std::shared_ptr<update<T>> const keyed = std::exchange(current_, nullptr);
    begin(true);
    if (keep) current_->values.assign(elements, T{});
    else current_->values.resize(elements);
    if (keep && keyed) {
      T const* from = keyed->values.data();
      for (std::uint64_t const row : keyed->rows) {
        std::copy_n(from, width_, current_->values.data() + static_cast<std::size_t>(row) * width_);
        from += width_;
      }
    }
    detail::clear(slots_);
  }

  // ---- the filter

  /// Leaves in `current_` what is to be sent, if anything, and returns what is to be carried, if
  /// anything. `slots_` are still those from before. @pre there is a current update
  [[nodiscard]] std::shared_ptr<update<T>> split(update_filter const& filter) {
    auto const sent = [filter](T x) { return filter.sends(x); };
    auto const small = [filter](T x) { return x != T{} && !filter.sends(x); };
    update<T>& all = *current_;
    std::shared_ptr<update<T>> carried;
    if (filter.small == small_entries::carry) {
      if (std::size_t const count = rows_with(all, small)) {
        carried = pool_.take();
        pick(all, small, count, *carried);
      }
    }
    std::size_t const count = rows_with(all, sent);
    if (count == 0) {
      current_ = nullptr;
    } else if (all.whole && !worth_whole(count)) {
      auto keyed = pool_.take();
      pick(all, sent, count, *keyed);
      current_ = std::move(keyed);
    } else {
      pick(all, sent, count, all);
    }
    return carried;
  }

  /// Whether so many rows take no more bytes whole than with their numbers.
  [[nodiscard]] bool worth_whole(std::size_t count) const noexcept {
    std::size_t const row = width_ * sizeof(T);
    return count * (sizeof(std::uint64_t) + row) >= static_cast<std::size_t>(rows_) * row;
  }

  /// How many rows have an entry that is `wanted`.
  template <class Wanted>
  [[nodiscard]] std::size_t rows_with(update<T> const& u, Wanted wanted) const {
    std::size_t count = 0;
    T const* const end = u.values.data() + u.values.size();
    for (T const* row = u.values.data(); row != end; row += width_)
      if (std::any_of(row, row + width_, wanted)) ++count;
    return count;
  }

  /// to ← the entries of `from` that are `wanted`, which are in `count` rows. `to` may be `from`
  /// itself, unless a whole one becomes keyed.
  template <class Wanted>
  void pick(update<T> const& from, Wanted wanted, std::size_t count, update<T>& to) const {
    auto const copy = [&](T const* first, std::size_t n, T* out) {
      std::transform(first, first + n, out, [&](T x) { return wanted(x) ? x : T{}; });
    };
    bool const in_place = &from == &to;
    to.whole = from.whole && worth_whole(count);
    if (to.whole) {
      to.values.resize(from.values.size());
      copy(from.values.data(), from.values.size(), to.values.data());
      return;
    }
    if (!in_place) {
      to.rows.resize(count);
      to.values.resize(count * width_);
    }
    std::size_t const rows = from.values.size() / width_;
    std::size_t slot = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      T const* const row = from.values.data() + i * width_;
      if (std::none_of(row, row + width_, wanted)) continue;
      copy(row, width_, to.values.data() + slot * width_);
      to.rows[slot++] = from.whole ? i : from.rows[i];
    }
    if (in_place) {
      to.rows.resize(count);
      to.values.resize(count * width_);
    }
  }

  void start_with(std::shared_ptr<update<T>> carried) {
    if (!carried) return;
    current_ = std::move(carried);
    index();
  }

  /// Makes `slots_` say where the current update's rows are.
  void index() {
    detail::clear(slots_);
    for (std::size_t slot = 0; slot < current_->rows.size(); ++slot)
      slots_.emplace(current_->rows[slot], slot);
  }

  std::uint64_t rows_;
  std::size_t width_;
  update_pool<T> pool_;
  std::shared_ptr<update<T>> current_;
  detail::row_slots slots_;
  std::shared_ptr<update<T> const> nothing_;
};

}  // namespace rubato
