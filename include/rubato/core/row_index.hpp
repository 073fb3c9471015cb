// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rubato/core/large_pages.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/core/prefetch.hpp"

namespace rubato::detail {

/// Small values by rows, which it finds by their hashes, `mix64` of each, of which it goes by the lower bits. Rows are
/// never taken out. Beside a `row_map` it can have what it will look at fetched before, and takes two thirds of the
/// memory: 32 to 64 bytes a row with a value of up to 8. Not synchronized.
template <class Value>
class row_index {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return buckets_.size() * sizeof(bucket); }

  /// A row of this hash will be looked for.
  void expect(std::uint64_t hash) const noexcept { prefetch_to_read(buckets_.data() + (hash & mask_)); }
  /// Its value, until another row is added; nullptr where it has not been.
  [[nodiscard]] Value* find(std::uint64_t row, std::uint64_t hash) noexcept {
    if (row == unused) [[unlikely]] return of_unused_ ? &*of_unused_ : nullptr;
    if (buckets_.empty()) return nullptr;
    bucket& b = buckets_[place_of(row, hash)];
    return b.row == row ? &b.value : nullptr;
  }
  /// Returns where its value is now, as `find` does. @pre it has not been added
  Value* add(std::uint64_t row, std::uint64_t hash, Value value) {
    if (2 * (size_ + 1) > buckets_.size()) grow();
    ++size_;
    if (row == unused) [[unlikely]] return &of_unused_.emplace(value);
    bucket& b = buckets_[place_of(row, hash)];
    b = {row, value};
    return &b.value;
  }

  /// Calls `f(row, value)` for each, in no order.
  template <class F>
  void for_each(F f) const {
    for (bucket const& b : buckets_)
      if (b.row != unused) f(b.row, b.value);
    if (of_unused_) f(unused, *of_unused_);
  }

 private:
  /// Says of a bucket that nothing is in it; so the row of this number is kept beside them.
  static constexpr std::uint64_t unused = ~std::uint64_t{0};
  struct bucket {
    std::uint64_t row = unused;
    Value value{};
  };

  /// Where the row is, or would be: there is room, as at most half of them are taken.
  [[nodiscard]] std::size_t place_of(std::uint64_t row, std::uint64_t hash) const noexcept {
    std::size_t at = static_cast<std::size_t>(hash) & mask_;
    while (buckets_[at].row != row && buckets_[at].row != unused) at = (at + 1) & mask_;
    return at;
  }

  void grow() {
    std::vector<bucket, array_allocator<bucket>> larger(std::max<std::size_t>(16, 2 * buckets_.size()));
    larger.swap(buckets_);
    mask_ = buckets_.size() - 1;
    for (bucket const& b : larger)
      if (b.row != unused) buckets_[place_of(b.row, mix64(b.row))] = b;
  }

  std::vector<bucket, array_allocator<bucket>> buckets_;
  std::optional<Value> of_unused_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace rubato::detail
