// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "rubato/core/mix.hpp"

namespace rubato::detail {

/// Whether no row occurs twice, as their order shows.
[[nodiscard]] inline bool ascend(std::span<std::uint64_t const> rows) noexcept {
  return std::ranges::adjacent_find(rows, [](auto a, auto b) { return a >= b; }) == rows.end();
}

/// Looks for rows that a list names twice. O(rows), without memory of its own where they ascend; O(rows · log rows)
/// where their hashes have been made to meet. Keeps memory for the next list, 16 to 32 bytes a row. Not synchronized.
class repeated_row {
 public:
  /// One that is there twice; none where all are different.
  [[nodiscard]] std::optional<std::uint64_t> find(std::span<std::uint64_t const> rows) {
    if (ascend(rows)) return std::nullopt;
    if (rows.size() >= std::numeric_limits<place>::max()) return find_in_order(rows);
    std::size_t const size = std::bit_ceil(4 * rows.size());
    places_.assign(size, 0);
    std::size_t looks = 0;  // at places that others have taken: seven rows make one, where hashes are as by chance
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::size_t at = static_cast<std::size_t>(mix64(rows[i])) & (size - 1);
      for (; places_[at] != 0; at = (at + 1) & (size - 1)) {
        if (rows[places_[at] - 1] == rows[i]) return rows[i];
        if (++looks > 4 * rows.size()) return find_in_order(rows);
      }
      places_[at] = static_cast<place>(i + 1);
    }
    return std::nullopt;
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return places_.capacity() * sizeof(place); }

 private:
  using place = std::uint32_t;  // in the list, from 1

  [[nodiscard, gnu::noinline]] static std::optional<std::uint64_t> find_in_order(std::span<std::uint64_t const> rows) {
    std::vector<std::uint64_t> sorted(rows.begin(), rows.end());
    std::ranges::sort(sorted);
    auto const twice = std::ranges::adjacent_find(sorted);
    return twice == sorted.end() ? std::nullopt : std::optional(*twice);
  }

  std::vector<place> places_;
};

}  // namespace rubato::detail
