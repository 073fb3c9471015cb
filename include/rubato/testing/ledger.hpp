// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"

namespace rubato::testing::detail {

/// What one worker has pushed to each row of one table: in all, and up to each of its commits.
class ledger {
 public:
  ledger() = default;
  explicit ledger(std::size_t rows) : pushed_(rows) {}

  /// The worker's first clock: nothing was committed below it.
  void start(std::int64_t clock) {
    first_ = clock;
    at_commit_ = pushed_;
  }
  void push(std::size_t row, std::int64_t amount) { pushed_[row] += amount; }
  void commit() { at_commit_.insert(at_commit_.end(), pushed_.begin(), pushed_.end()); }
  void retract() { at_commit_.resize(at_commit_.size() - pushed_.size()); }

  [[nodiscard]] std::int64_t pushed(std::size_t row) const { return pushed_[row]; }
  [[nodiscard]] std::int64_t last() const {
    return first_ + static_cast<std::int64_t>(at_commit_.size() / pushed_.size()) - 1;
  }
  /// What a row holds when it reflects the stamps below `clock`, as far as there are any.
  [[nodiscard]] std::int64_t below(clock_index clock, std::size_t row) const {
    return at(std::clamp(clock.value(), first_, last()), row);
  }
  /// The clocks that a row may reflect which holds `value`: first and last; none if first > last.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> clocks(std::int64_t value,
                                                             std::size_t row) const {
    std::int64_t low = first_;
    std::int64_t high = last() + 1;
    while (low < high) {  // the first clock with at least this value
      std::int64_t const middle = low + (high - low) / 2;
      if (at(middle, row) < value)
        low = middle + 1;
      else
        high = middle;
    }
    std::int64_t end = low;
    while (end <= last() && at(end, row) == value) ++end;
    return {low, end - 1};
  }

 private:
  [[nodiscard]] std::int64_t at(std::int64_t clock, std::size_t row) const {
    return at_commit_[static_cast<std::size_t>(clock - first_) * pushed_.size() + row];
  }

  std::int64_t first_ = 0;
  std::vector<std::int64_t> pushed_;
  std::vector<std::int64_t> at_commit_;  // one block of rows per clock, from first_ on
};

}  // namespace rubato::testing::detail
