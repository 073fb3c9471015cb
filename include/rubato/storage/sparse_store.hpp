// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "rubato/core/large_pages.hpp"
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
    for_each_row(u.rows, [&](stripe& s, std::size_t i) {
      std::copy_n(u.values.data() + i * width_, width_, touch(s, u.rows[i]));
    });
  }

  void fold(std::span<weighted_update<T> const> step) {
    for (auto const& u : step)
      for_each_row(u.rows, [&](stripe& s, std::size_t i) {
        detail::add_row(touch(s, u.rows[i]), u.values.data() + i * width_, width_, u.weight);
      });
  }

  void read(std::span<std::uint64_t const> rows, T* out) const {
    for_each_row(rows, [&](stripe const& s, std::size_t i) {
      auto const found = s.slots.find(rows[i]);
      T* const to = out + i * width_;
      if (found == s.slots.end()) std::fill_n(to, width_, T{});
      else if (width_ == 1) *to = s.values[found->second];
      else std::copy_n(s.values.data() + found->second * width_, width_, to);
    });
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
    std::vector<T, detail::array_allocator<T>> values;
  };

  static constexpr std::size_t stripes = 32;
  [[nodiscard]] static std::size_t stripe_of(std::uint64_t row) noexcept {
    // By the upper bits: the stripe's own table goes by the lower ones of the same hash.
    static_assert(stripes == std::size_t{1} << (64 - 59));
    return detail::mix64(row) >> 59;
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

  /// Calls `f(stripe, i)` for each row under its stripe's lock.
  template <class F>
  void for_each_row(std::span<std::uint64_t const> rows, F f) const {
    constexpr std::size_t many = 4 * stripes;
    if (rows.size() >= many) return for_each_by_stripe(rows, f);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      stripe& s = stripes_[stripe_of(rows[i])];
      std::lock_guard const guard(s.lock);
      f(s, i);
    }
  }
  /// The same, stripe by stripe: with a lock for each row, each would wait for the memory of the one before.
  template <class F>
  void for_each_by_stripe(std::span<std::uint64_t const> rows, F f) const {
    std::array<std::size_t, stripes + 1> ends{};
    for (std::uint64_t const row : rows) ++ends[stripe_of(row) + 1];
    for (std::size_t s = 0; s < stripes; ++s) ends[s + 1] += ends[s];
    std::vector<std::size_t> order(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) order[ends[stripe_of(rows[i])]++] = i;
    auto at = order.begin();
    for (std::size_t s = 0; s < stripes; ++s) {
      auto const end = order.begin() + static_cast<std::ptrdiff_t>(ends[s]);
      if (at == end) continue;
      std::lock_guard const guard(stripes_[s].lock);
      for (; at != end; ++at) f(stripes_[s], *at);
    }
  }

  std::size_t width_;
  mutable std::array<stripe, stripes> stripes_;
};

static_assert(concurrent_store<sparse_store<float>>);

}  // namespace rubato
