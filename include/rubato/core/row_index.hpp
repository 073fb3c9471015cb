// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/core/large_pages.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/core/prefetch.hpp"

namespace rubato::detail {

/// Numbers rows in the order in which they are added, and finds them by their hashes, `mix64` of each, of which it goes
/// by the lower bits. Rows are never taken out. Beside a `row_map` it can have what it will look at fetched before, and
/// takes two thirds of the memory: 32 to 64 bytes a row. Not synchronized.
class row_index {
 public:
  static constexpr std::size_t none = ~std::size_t{0};

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return buckets_.size() * sizeof(bucket); }

  /// A row of this hash will be looked for.
  void expect(std::uint64_t hash) const noexcept { prefetch_to_read(buckets_.data() + (hash & mask_)); }
  /// Its number; `none` where it has not been added.
  [[nodiscard]] std::size_t find(std::uint64_t row, std::uint64_t hash) const noexcept {
    if (size_ == 0) return none;
    bucket const& b = buckets_[place_of(row, hash)];
    return b.number == 0 ? none : b.number - 1;
  }
  /// @pre it has not been added
  void add(std::uint64_t row, std::uint64_t hash) {
    if (2 * (size_ + 1) > buckets_.size()) grow();
    buckets_[place_of(row, hash)] = {row, ++size_};
  }

  /// Calls `f(row, number)` for each, in no order.
  template <class F>
  void for_each(F f) const {
    for (bucket const& b : buckets_)
      if (b.number != 0) f(b.row, static_cast<std::size_t>(b.number - 1));
  }

 private:
  struct bucket {
    std::uint64_t row;
    std::uint64_t number;  ///< from 1; 0: nothing is here
  };

  /// Where the row is, or would be: there is room, as at most half of them are taken.
  [[nodiscard]] std::size_t place_of(std::uint64_t row, std::uint64_t hash) const noexcept {
    std::size_t at = static_cast<std::size_t>(hash) & mask_;
    while (buckets_[at].number != 0 && buckets_[at].row != row) at = (at + 1) & mask_;
    return at;
  }

  void grow() {
    std::vector<bucket, array_allocator<bucket>> larger(std::max<std::size_t>(16, 2 * buckets_.size()));
    larger.swap(buckets_);
    mask_ = buckets_.size() - 1;
    for (bucket const& b : larger)
      if (b.number != 0) buckets_[place_of(b.row, mix64(b.row))] = b;
  }

  std::vector<bucket, array_allocator<bucket>> buckets_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace rubato::detail
