// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "rubato/data/view.hpp"

namespace rubato::algorithm {

/// How rare features are: for each one all rows over those in which it is stored. A step that moves only the
/// coordinates of its batch multiplies by it what a dense step would have done to all of them, so that both
/// do the same in the mean: E[rarity · 1{feature occurs}] is 1 for a row drawn at random.
///
/// Copies share the numbers: 4 bytes per feature. Immutable, so that any thread may read it.
/// Cost of making it: O(stored values + features), and 8 bytes more per feature for a moment.
class feature_rarity {
 public:
  /// Knows no feature: for steps that move all coordinates.
  feature_rarity() = default;

  /// Counts the rows in which each feature occurs.
  explicit feature_rarity(data::dataset_view rows) {
    std::vector<std::size_t> counts(rows.features());  // a float would stay at 2^24
    for (data::example const row : rows)
      for (auto const feature : row.indices) ++counts[feature];
    std::vector<float> rarity(rows.features());
    for (std::size_t j = 0; j < rarity.size(); ++j)
      if (counts[j] != 0)
        rarity[j] = static_cast<float>(static_cast<double>(rows.size()) / static_cast<double>(counts[j]));
    of_ = std::make_shared<std::vector<float> const>(std::move(rarity));
  }

  /// At least 1 where the feature occurs, else 0. @pre the feature is known
  [[nodiscard]] float operator[](std::size_t feature) const noexcept { return (*of_)[feature]; }

 private:
  std::shared_ptr<std::vector<float> const> of_;
};

}  // namespace rubato::algorithm
