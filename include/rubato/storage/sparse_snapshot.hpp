// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "rubato/core/element.hpp"
#include "rubato/core/ids.hpp"

namespace rubato {

/// What a whole sparse table is read into: its touched rows, by ascending key; `values[i·width …]`
/// belong to `keys[i]`.
template <parameter T>
struct sparse_snapshot {
  std::vector<std::uint64_t> keys;  ///< ascending
  std::vector<T> values;  ///< width for each key

  [[nodiscard]] bool empty() const noexcept { return keys.empty(); }
  /// The keys as a table's `init_keys` has them: a table is loaded by `{.init_keys = s.as_keys(), .init = s.values}`.
  [[nodiscard]] std::span<key const> as_keys() const noexcept {
    static_assert(sizeof(key) == sizeof(std::uint64_t) && std::is_standard_layout_v<key>);
    return {reinterpret_cast<key const*>(keys.data()), keys.size()};
  }
  /// No rows; keeps the memory.
  void clear() noexcept {
    keys.clear();
    values.clear();
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return keys.size() * sizeof(std::uint64_t) + values.size() * sizeof(T);
  }
};

}  // namespace rubato
