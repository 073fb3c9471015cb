// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/partition/concepts.hpp"

namespace rubato {

namespace detail {
/// @throws option_error that says which one is wrong
void check_first_keys(std::vector<std::uint64_t> const& first);
[[noreturn]] void refuse_key_ranges(std::size_t ranges, std::uint32_t servers);
}  // namespace detail

/// Each server holds one run of consecutive keys, and the user says where it begins: server s holds the keys
/// from `first[s]` on, up to `first[s + 1]`, the last one all from there on. For keys that are not used
/// alike: `key_ranges{{0, 1000, 50'000}}` gives the first of three servers a hot thousand.
///
/// A range that begins where the next one does is empty, and so is one that begins at the table's rows or
/// beyond: that server holds no row. Which server holds a key does not depend on how many rows there are.
/// Cost: O(log servers) per key. Source: 004 §6 (tables partitioned by ranges that the user gives).
class key_ranges {
 public:
  /// @param first where each server's range begins, in ascending order, 0 first
  /// @throws option_error for any other order, for a list that begins otherwise and for an empty one
  explicit key_ranges(std::vector<std::uint64_t> first) : first_(std::move(first)) {
    detail::check_first_keys(first_);
  }

  /// @throws option_error unless there are as many servers as ranges
  [[nodiscard]] server_id server_of(key k, table_shape shape) const {
    if (first_.size() != shape.servers) detail::refuse_key_ranges(first_.size(), shape.servers);
    auto const next = std::ranges::upper_bound(first_, k.value());
    return server_id{static_cast<std::uint32_t>(std::distance(first_.begin(), next) - 1)};
  }

  [[nodiscard]] std::uint64_t run_end(key k, table_shape shape) const noexcept {
    auto const next = std::ranges::upper_bound(first_, k.value());
    return next == first_.end() ? shape.rows : *next;
  }

  [[nodiscard]] std::uint64_t digest() const noexcept {
    std::uint64_t words = 0;
    for (std::uint64_t const k : first_) words = detail::mix64(words ^ k) + 1;
    return words;
  }

 private:
  std::vector<std::uint64_t> first_;
};
static_assert(partition_policy<key_ranges>);

}  // namespace rubato
