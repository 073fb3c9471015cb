// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rubato::detail {

/// Which rows of a table have been read. A clock may read the same ones again and again: what is kept is at most twice
/// as many as they are, and a few. Amortized O(log rows) for each that is read.
class rows_read {
 public:
  void add(std::span<std::uint64_t const> keys) {
    keys_.insert(keys_.end(), keys.begin(), keys.end());
    if (keys_.size() < crowded_) return;
    sort_out();
    crowded_ = std::max(2 * keys_.size(), few);
  }
  void clear() noexcept {
    keys_.clear();
    crowded_ = few;
  }
  [[nodiscard]] bool empty() const noexcept { return keys_.empty(); }
  /// How many keys are kept.
  [[nodiscard]] std::size_t kept() const noexcept { return keys_.size(); }
  /// Ascending, each once.
  [[nodiscard]] std::span<std::uint64_t const> sorted() {
    sort_out();
    return keys_;
  }

 private:
  void sort_out() {
    std::ranges::sort(keys_);
    keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
  }

  static constexpr std::size_t few = 1024;

  std::vector<std::uint64_t> keys_;
  std::size_t crowded_ = few;
};

}  // namespace rubato::detail
