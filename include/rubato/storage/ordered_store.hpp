// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/concepts.hpp"

namespace rubato {

/// A tree of the rows that have been touched, by key; every other row reads as zero and takes no memory.
///
/// Beside a `sparse_store` it gives memory back row by row as it grows, without the pauses in which a hash is made
/// larger, and is slower: fold and read cost O(rows × (log touched + width)). Calls come one at a time.
/// Source: 004 §6.3 (tree map).
template <parameter T>
class ordered_store {
 public:
  using value_type = T;
  static constexpr bool bounded = false;

  explicit ordered_store(store_shape const& s) : width_(s.width) {}

  void assign(row_values<T> const& u) {
    for_each_row(u, [this](std::vector<T>& row, T const* from) { std::copy_n(from, width_, row.data()); });
  }

  void fold(std::span<weighted_update<T> const> step) {
    for (auto const& u : step)
      for_each_row(u, [&](std::vector<T>& row, T const* from) { detail::add_row(row.data(), from, width_, u.weight); });
  }

  void read(std::span<std::uint64_t const> rows, T* out) const {
    for (std::uint64_t const row : rows) {
      auto const found = rows_.find(row);
      if (found == rows_.end()) std::fill_n(out, width_, T{});
      else std::ranges::copy(found->second, out);
      out += width_;
    }
  }

  /// By ascending key.
  void collect(std::vector<std::uint64_t>& keys, std::vector<T>& values) const {
    for (auto const& [row, elements] : rows_) {
      keys.push_back(row);
      values.insert(values.end(), elements.begin(), elements.end());
    }
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return rows_.size() * (width_ * sizeof(T) + node_bytes); }

 private:
  /// Of a row beside its values: the key, the vector, and the node's colour and three pointers.
  static constexpr std::size_t node_bytes =
      sizeof(std::uint64_t) + sizeof(std::vector<T>) + 4 * sizeof(void*);

  template <class F>
  void for_each_row(row_values<T> const& u, F f) {
    T const* from = u.values.data();
    for (std::uint64_t const row : u.rows) {
      f(rows_.try_emplace(row, width_).first->second, from);
      from += width_;
    }
  }

  std::size_t width_;
  std::map<std::uint64_t, std::vector<T>> rows_;
};

static_assert(table_store<ordered_store<float>> && !concurrent_store<ordered_store<float>>);

}  // namespace rubato
