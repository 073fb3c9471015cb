// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rubato::algorithm {

/// A stretch of lines, of users, items or documents: those of worker `rank` of `count`, or batch `rank` of `count`.
struct line_range {
  std::size_t first;
  std::size_t last;  ///< the first that is not in it

  /// Stretches cover all lines, and differ by one line at most. @pre lines × count fits into 64 bits
  [[nodiscard]] static constexpr line_range of(std::size_t lines, std::uint32_t rank,
                                               std::uint32_t count) noexcept {
    auto const begin_of = [&](std::uint64_t r) { return static_cast<std::size_t>(lines * r / count); };
    return {begin_of(rank), begin_of(rank + std::uint64_t{1})};
  }
};

}  // namespace rubato::algorithm
