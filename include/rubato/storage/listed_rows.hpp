// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace rubato::detail {

/// The rows that an update lists, for who goes through a table chunk by chunk.
class listed_rows {
 public:
  /// @param rows in any order; they outlive this
  explicit listed_rows(std::span<std::uint64_t const> rows) : rows_(rows), places_(rows.size()) {
    std::iota(places_.begin(), places_.end(), std::size_t{0});
    if (!std::ranges::is_sorted(rows)) std::ranges::sort(places_, {}, [&](std::size_t place) { return rows[place]; });
  }

  /// Calls `f(row, place)` for the rows below `end` that have not had their turn, where `place` is the row's in the list.
  template <class F>
  void for_each_below(std::uint64_t end, F f) {
    for (; next_ < places_.size() && rows_[places_[next_]] < end; ++next_) f(rows_[places_[next_]], places_[next_]);
  }

 private:
  std::span<std::uint64_t const> rows_;
  std::vector<std::size_t> places_;
  std::size_t next_ = 0;
};

}  // namespace rubato::detail
