// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include "rubato/core/optional_mutex.hpp"
#include "rubato/core/row_map.hpp"
#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/concepts.hpp"

namespace rubato {

/// A hash of the rows that have been touched; every other row reads as zero and takes no memory.
///
/// Rows are spread over stripes, each with a lock of its own. Fold and read cost O(rows × width).
template <parameter T>
class sparse_store {
 public:
  using value_type = T;
  static constexpr bool bounded = false;
  static constexpr bool concurrent = true;

  explicit sparse_store(store_shape const& s) : width_(s.width) {
    for (stripe& one : stripes_) one.lock.set(s.threads);
  }

  void assign(row_values<T> const& u) {
    for_each_row(u, [&](stripe& s, std::uint64_t row, T const* from) {
      std::copy_n(from, width_, touch(s, row));
    });
  }

  void fold(std::span<weighted_update<T> const> step) {
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
      if (found == s.slots.end()) std::fill_n(out, width_, T{});
      else std::copy_n(s.values.data() + found->second * width_, width_, out);
      out += width_;
    }
  }

  void collect(std::vector<std::uint64_t>& keys, std::vector<T>& values) const {
    for (stripe& s : stripes_) {
      std::lock_guard const guard(s.lock);
      std::size_t const first = keys.size();
      keys.resize(first + s.slots.size());
      for (auto const& [row, slot] : s.slots) keys[first + slot] = row;
      values.insert(values.end(), s.values.begin(), s.values.end());
    }
  }

  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t total = 0;
    for (stripe& s : stripes_) {
      std::lock_guard const guard(s.lock);
      total += s.values.capacity() * sizeof(T) + s.slots.bucket_count() * 3 * sizeof(std::uint64_t);
    }
    return total;
  }

 private:
  struct stripe {
    optional_mutex lock;
    detail::row_map<std::size_t> slots;  // row → index of its values
    std::vector<T> values;
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
  void for_each_row(row_values<T> const& u, F f) {
    T const* from = u.values.data();
    for (std::uint64_t const row : u.rows) {
      f(stripe_of(row), row, from);
      from += width_;
    }
  }

  std::size_t width_;
  mutable std::array<stripe, 32> stripes_;
};

static_assert(concurrent_store<sparse_store<float>>);

}  // namespace rubato
