// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rubato/data/dataset.hpp"

namespace rubato::data {

/// The stored values of a data set by column, for algorithms that go over features: a copy of them, turned
/// round. Labels stay with the rows.
///
/// Immutable, used concurrently; copies share their memory: 8 bytes a stored value, 16 a feature.
class columns {
 public:
  /// What a feature is in a row.
  struct entry {
    std::uint32_t row;  ///< the number of the row
    float value;  ///< the feature's value in that row
  };

  /// @throws option_error for more than 2^32 rows. Cost: O(stored values + features)
  explicit columns(dataset_view rows);

  /// Number of columns: the data set's features.
  [[nodiscard]] std::size_t size() const noexcept { return state_->squared_norms.size(); }
  /// Number of rows of the data set.
  [[nodiscard]] std::size_t rows() const noexcept { return state_->rows; }
  /// Column `j`, by ascending row; @pre `j` is below `size()`
  [[nodiscard]] std::span<entry const> operator[](std::size_t j) const noexcept {
    return std::span(state_->entries).subspan(state_->first[j], state_->first[j + 1] - state_->first[j]);
  }
  /// The sum of column `j`'s squared values; @pre `j` is below `size()`
  [[nodiscard]] double squared_norm(std::size_t j) const noexcept { return state_->squared_norms[j]; }

 private:
  struct state {
    std::size_t rows = 0;
    std::vector<std::size_t> first;  ///< of a column's entries; one more than there are columns
    std::vector<entry> entries;
    std::vector<double> squared_norms;
  };

  std::shared_ptr<state const> state_;
};

}  // namespace rubato::data
