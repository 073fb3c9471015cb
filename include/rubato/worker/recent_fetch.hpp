// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/raw_array.hpp"
#include "rubato/partition/layout.hpp"
#include "rubato/storage/arithmetic.hpp"
#include "rubato/worker/row_cache.hpp"

namespace rubato {

/// The rows of one fetch as they have come, without the index that a `row_cache` makes of them: most are pushed to once,
/// by the same list of keys, and given up with the clock. Not synchronized.
class recent_fetch {
 public:
  [[nodiscard]] bool empty() const noexcept { return keys_.empty(); }

  /// For so many rows; what was here is gone. Then `set` is called for each of them, and `keep`.
  void start(std::size_t count, fetch_mark const& mark, std::size_t row_bytes) {
    clear();
    values_.resize_bytes(count * row_bytes);
    clocks_.resize(count);
    keys_.reserve(count);
    mark_ = mark;
  }
  /// Where the values of the i-th row go, fetched at this server clock.
  [[nodiscard]] std::byte* set(std::size_t i, clock_index server_clock, std::size_t row_bytes) noexcept {
    clocks_[i] = server_clock;
    newest_ = std::max(newest_, server_clock);
    return values_.data() + i * row_bytes;
  }

  /// All of them in place of `set`, fetched at this server clock. `values` gets memory for the next in exchange.
  void set_all(clock_index server_clock, raw_array& values) noexcept {
    std::ranges::fill(clocks_, server_clock);
    newest_ = server_clock;
    std::swap(values_, values);
  }

  /// They are these, all different, and `places` says where each is, or nothing. Until then there are none: something
  /// may fail in between. The keys take no memory that `start` has not taken.
  void keep(std::span<std::uint64_t const> keys, std::span<layout::place const> places = {}) {
    places_.assign(places.begin(), places.end());
    keys_.assign(keys.begin(), keys.end());
  }
  /// As `keep` was told.
  [[nodiscard]] std::span<layout::place const> places() const noexcept { return places_; }

  /// Whether a push to this list of rows is to all that are here, and nothing else.
  [[nodiscard]] bool is_of(std::span<std::uint64_t const> keys) const noexcept {
    return !empty() && std::ranges::equal(keys, keys_);
  }
  /// Adds such an own push.
  template <parameter T>
  void add(T const* deltas) noexcept {
    std::span<T> const values = values_.as<T>();
    detail::add_scaled(values.data(), deltas, values.size(), 1.0);
  }

  /// Puts the rows where they are found by key.
  void move_to(row_cache<>& rows, std::size_t row_bytes) {
    for (std::size_t i = 0; i < keys_.size(); ++i)
      rows.put(keys_[i], mark_, clocks_[i], values_.data() + i * row_bytes);
    clear();
  }

  void clear() noexcept {
    keys_.clear();
    newest_ = clock_index::lowest();
  }
  /// Forgets the rows once none of them was fetched at this server clock or later.
  void clear_unless_from(clock_index server_clock) noexcept {
    if (newest_ < server_clock) clear();
  }

 private:
  std::vector<std::uint64_t> keys_;
  std::vector<layout::place> places_;
  std::vector<clock_index> clocks_;  // of the servers, by row
  raw_array values_;
  fetch_mark mark_{};
  clock_index newest_ = clock_index::lowest();
};

}  // namespace rubato
