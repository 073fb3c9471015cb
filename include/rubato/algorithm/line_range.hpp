// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>

#include "rubato/data/view.hpp"

namespace rubato::algorithm {

/// A stretch of lines, of users, items or documents: those of worker `rank` of `count`, or batch `rank` of `count`.
struct line_range {
  std::size_t first;  ///< the first line
  std::size_t last;  ///< the first that is not in it

  /// Stretches cover all lines, and differ by one line at most.
  [[nodiscard]] static constexpr line_range of(std::size_t lines, std::size_t rank, std::size_t count) noexcept {
    auto const [first, size] = data::detail::even_part(lines, count, rank);
    return {first, first + size};
  }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return last - first; }
};

}  // namespace rubato::algorithm
