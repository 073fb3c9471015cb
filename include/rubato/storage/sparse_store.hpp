// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/row_map.hpp"
#include "rubato/storage/block.hpp"
#include "rubato/storage/update.hpp"

namespace rubato {

namespace detail {
/// A row's values somewhere, and what they count in a sum.
template <class T>
struct weighted_row {
  std::uint64_t row;
  T const* values;
  double weight;
};
}  // namespace detail

/// The touched rows of a sparse store, by ascending key; `values[i·width …]` belong to `keys[i]`.
template <class T>
struct sparse_snapshot {
  std::vector<std::uint64_t> keys;
  std::vector<T> values;

  [[nodiscard]] bool empty() const noexcept { return keys.empty(); }
  void clear() noexcept {
    keys.clear();
    values.clear();
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return keys.size() * sizeof(std::uint64_t) + values.size() * sizeof(T);
  }

  /// Adds keyed updates, in their order; rows that are not here count as zero before.
  void add(std::span<weighted_update<T> const> parts, std::size_t width) {
    std::vector<detail::weighted_row<T>> rows;
    for (auto const& u : parts) {
      RUBATO_ASSERT(!u.part->whole);
      T const* from = u.part->values.data();
      for (std::uint64_t const row : u.part->rows) {
        rows.push_back({row, from, u.weight});
        from += width;
      }
    }
    add_rows(std::move(rows), width);
  }

  /// The same for rows from anywhere else, which may repeat. Costs O(rows here + n log n).
  void add_rows(std::vector<detail::weighted_row<T>> rows, std::size_t width) {
    std::ranges::stable_sort(rows, {}, &detail::weighted_row<T>::row);
    std::size_t from = keys.size();
    std::size_t to = from + absent(rows);
    values.resize(to * width);
    keys.resize(to);
    auto const place = [&](std::size_t i) { return values.data() + i * width; };
    auto const keep_last = [&] {  // moves the last of the old rows to its new place
      if (--to == --from) return;
      keys[to] = keys[from];
      std::copy_n(place(from), width, place(to));
    };
    // From the back, so that no row is overwritten that has yet to move.
    for (auto end = rows.end(); end != rows.begin();) {
      std::uint64_t const row = std::prev(end)->row;
      auto begin = end;
      while (begin != rows.begin() && std::prev(begin)->row == row) --begin;
      while (from != 0 && keys[from - 1] > row) keep_last();
      if (from != 0 && keys[from - 1] == row) {
        keep_last();
      } else {
        keys[--to] = row;
        std::fill_n(place(to), width, T{});
      }
      for (auto r = begin; r != end; ++r) detail::add_row(place(to), r->values, width, r->weight);
      end = begin;
    }
  }

 private:
  /// How many of these rows, given in ascending order, are not here.
  [[nodiscard]] std::size_t absent(std::span<detail::weighted_row<T> const> rows) const noexcept {
    std::size_t count = 0;
    auto at = keys.begin();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i != 0 && rows[i].row == rows[i - 1].row) continue;
      while (at != keys.end() && *at < rows[i].row) ++at;
      if (at == keys.end() || *at != rows[i].row) ++count;
    }
    return count;
  }
};

/// A hash of the rows that have been touched; every other row reads as zero and takes no memory.
///
/// Rows are spread over stripes, each with a lock of its own. Fold and read cost O(rows × width);
/// a snapshot copies and sorts all touched rows.
template <class T, class Mutex>
class sparse_store {
 public:
  using value_type = T;
  using snapshot_type = sparse_snapshot<T>;

  explicit sparse_store(std::size_t width) : width_(width) {}

  /// Sets a row before the run. Not synchronized.
  void set(std::uint64_t row, std::span<T const> values) {
    stripe& s = stripe_of(row);
    std::copy_n(values.data(), width_, touch(s, row));
  }

  void fold(std::span<weighted_update<T> const> step, std::optional<double> decay) {
    if (decay) return fold_with_velocity(step, *decay);
    for (auto const& u : step)
      for_each_row(u, [&](stripe& s, std::uint64_t row, T const* from) {
        std::lock_guard const guard(s.lock);
        detail::add_row(touch(s, row), from, width_, u.weight);
      });
  }

  void read(std::span<std::uint64_t const> rows, T* out) const {
    for (std::uint64_t const row : rows) {
      stripe& s = stripe_of(row);
      std::lock_guard const guard(s.lock);
      auto const found = s.slots.find(row);
      if (found == s.slots.end())
        std::fill_n(out, width_, T{});
      else
        std::copy_n(s.values.data() + found->second * width_, width_, out);
      out += width_;
    }
  }

  void snapshot(snapshot_type& out) const {
    std::vector<std::uint64_t> keys;
    std::vector<T> values;
    for (stripe& s : stripes_) {
      std::lock_guard const guard(s.lock);
      for (auto const& [row, slot] : s.slots) {
        keys.push_back(row);
        auto const from = s.values.begin() + static_cast<std::ptrdiff_t>(slot * width_);
        values.insert(values.end(), from, from + static_cast<std::ptrdiff_t>(width_));
      }
    }
    std::vector<std::size_t> order(keys.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return keys[i]; });
    out.clear();
    for (std::size_t const i : order) {
      out.keys.push_back(keys[i]);
      auto const from = values.begin() + static_cast<std::ptrdiff_t>(i * width_);
      out.values.insert(out.values.end(), from, from + static_cast<std::ptrdiff_t>(width_));
    }
  }

  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t total = 0;
    for (stripe& s : stripes_) {
      std::lock_guard const guard(s.lock);
      total += s.values.capacity() * sizeof(T) + s.velocity.capacity() * sizeof(T) +
               s.slots.bucket_count() * 3 * sizeof(std::uint64_t);
    }
    return total;
  }
  [[nodiscard]] std::size_t width() const noexcept { return width_; }

 private:
  struct stripe {
    Mutex lock;
    detail::row_map<std::size_t> slots;  // row → index of its values
    std::vector<T> values;
    std::vector<T> velocity;  // grows behind `values`; empty without momentum
  };

  [[nodiscard]] stripe& stripe_of(std::uint64_t row) const noexcept {
    // By the upper bits: the stripe's own table goes by the lower ones of the same hash.
    static_assert(std::tuple_size_v<decltype(stripes_)> == 32);
    return stripes_[detail::mix64(row) >> 59];
  }

  /// The row's values, made zero when it is touched for the first time.
  T* touch(stripe& s, std::uint64_t row) {
    if (auto const at = s.slots.find(row); at != s.slots.end())
      return s.values.data() + at->second * width_;
    std::size_t const slot = s.slots.size();
    s.values.resize((slot + 1) * width_);  // first, as there may be no room
    s.slots.emplace(row, slot);
    return s.values.data() + slot * width_;
  }

  template <class F>
  void for_each_row(weighted_update<T> const& u, F f) {
    T const* from = u.part->values.data();
    for (std::uint64_t const row : u.part->rows) {
      f(stripe_of(row), row, from);
      from += width_;
    }
  }

  /// Every touched row moves in each step, also those that the step has no update for.
  void fold_with_velocity(std::span<weighted_update<T> const> step, double decay) {
    std::lock_guard const serial(velocity_lock_);
    for (stripe& s : stripes_)
      for (T& v : s.velocity) v *= static_cast<T>(decay);
    for (auto const& u : step)
      for_each_row(u, [&](stripe& s, std::uint64_t row, T const* from) {
        std::lock_guard const guard(s.lock);
        std::ptrdiff_t const offset = touch(s, row) - s.values.data();
        s.velocity.resize(s.values.size());
        detail::add_row(s.velocity.data() + offset, from, width_, u.weight);
      });
    for (stripe& s : stripes_) {
      std::lock_guard const guard(s.lock);
      for (std::size_t i = 0; i < s.velocity.size(); ++i) s.values[i] += s.velocity[i];
    }
  }

  std::size_t width_;
  mutable std::array<stripe, 32> stripes_;
  Mutex velocity_lock_;
};

}  // namespace rubato
