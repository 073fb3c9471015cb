// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/storage/table_state.hpp"

namespace rubato::detail {

/// What a store's `collect` has given, as a state: by ascending key. O(n log n).
/// @throws error (errc::io) where there are not as many values as rows need: who wrote the store is to hear of it
template <class T>
void receive_touched(table_state& out, std::vector<std::uint64_t> const& keys, std::vector<T> const& values,
                     std::size_t width) {
  if (values.size() != keys.size() * width)
    throw error(errc::io, "a store's collect gave " + std::to_string(values.size()) + " values of " +
                              std::to_string(keys.size()) + " rows of " + std::to_string(width));
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return keys[i]; });
  out.receive_rows(keys.size(), width * sizeof(T), [&](std::span<std::uint64_t> to, std::byte* bytes) {
    auto* row = reinterpret_cast<T*>(bytes);
    for (std::size_t k = 0; k < order.size(); ++k) {
      to[k] = keys[order[k]];
      row = std::copy_n(values.data() + order[k] * width, width, row);
    }
  });
}

}  // namespace rubato::detail
