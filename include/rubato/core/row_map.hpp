// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <tsl/robin_map.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "rubato/core/large_pages.hpp"
#include "rubato/core/mix.hpp"

namespace rubato::detail {

struct row_hash {
  [[nodiscard]] std::size_t operator()(std::uint64_t row) const noexcept {
    return static_cast<std::size_t>(mix64(row));
  }
};

/// A map from rows (or keys), flat in memory.
template <class Value>
using row_map = tsl::robin_map<std::uint64_t, Value, row_hash, std::equal_to<std::uint64_t>,
                               array_allocator<std::pair<std::uint64_t, Value>>>;

/// Empties a map in time proportional to what it holds, whatever it once held.
template <class Value>
void clear(row_map<Value>& map) {
  if (map.empty()) return;
  if (map.bucket_count() > 16 * (map.size() + 16)) map = row_map<Value>();
  else map.clear();
}

}  // namespace rubato::detail
