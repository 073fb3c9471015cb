// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/core/random.hpp"
#include "rubato/data/view.hpp"

namespace rubato::algorithm {

/// Some centres, and which of them is nearest to a row. Immutable, used concurrently.
class nearest_centre {
 public:
  /// Which centre, and the squared distance to it.
  struct found {
    std::size_t centre;  ///< the centre's number, in the order given
    double squared_distance;  ///< Euclidean, from the row to it
  };

  /// @param centres one after the other, as many numbers each as there are features; at least one
  nearest_centre(std::vector<double> centres, std::size_t features)
      : centres_(std::move(centres)), features_(features) {
    for (std::size_t c = 0; c < centres_.size(); c += features) {
      double norm = 0;
      for (std::size_t j = c; j < c + features; ++j) norm += centres_[j] * centres_[j];
      squared_norms_.push_back(norm);
    }
  }

  /// Of equally near ones the first. Cost: O(stored values × centres)
  [[nodiscard]] found to(data::example const& row) const noexcept {
    double own = 0;
    for (float const value : row.values) own += static_cast<double>(value) * static_cast<double>(value);
    found best{0, std::numeric_limits<double>::infinity()};
    for (std::size_t c = 0; c < squared_norms_.size(); ++c) {
      double product = 0;
      for (std::size_t k = 0; k < row.indices.size(); ++k)
        product += static_cast<double>(row.values[k]) * centres_[c * features_ + row.indices[k]];
      // Never below 0, where rounding would have it so.
      double const distance = std::max(own - 2 * product + squared_norms_[c], 0.0);
      if (distance < best.squared_distance) best = {c, distance};
    }
    return best;
  }

 private:
  std::vector<double> centres_;
  std::size_t features_;
  std::vector<double> squared_norms_;
};

/// The mean over the rows of the squared distance to the nearest centre: what k-means makes small.
/// @param centres as for `nearest_centre` @pre there are rows, features and centres
/// Cost: O(stored values × centres)
[[nodiscard]] inline double k_means_objective(data::dataset_view rows, std::vector<double> centres) {
  nearest_centre const nearest(std::move(centres), rows.features());
  double total = 0;
  for (data::example const row : rows) total += nearest.to(row).squared_distance;
  return total / static_cast<double>(rows.size());
}

/// First centres by k-means++: a row drawn uniformly, then each time a row drawn by its squared distance to the
/// nearest centre so far; uniformly where all rows are centres already. Depends on its arguments only, bit for bit, so
/// processes that have the same rows come to the same centres.
/// @return `clusters` × features numbers, centre after centre
/// @throws option_error unless there are from 1 to rows clusters, and features
/// Cost: O(stored values × clusters). Source: Arthur and Vassilvitskii, "k-means++: the advantages of careful
/// seeding", SODA 2007.
[[nodiscard]] inline std::vector<double> k_means_plus_plus(data::dataset_view rows, std::size_t clusters,
                                                           std::uint64_t seed) {
  detail::expect(clusters >= 1 && clusters <= rows.size(), "k_means: clusters must be from 1 to the number of rows");
  detail::expect(rows.features() != 0, "k_means: there must be features");
  random_stream random(seed);
  std::vector<double> centres, distance(rows.size(), std::numeric_limits<double>::infinity());
  for (std::size_t chosen = random.below(rows.size()); centres.size() != clusters * rows.features();) {
    std::vector<double> centre(rows.features());
    data::example const row = rows[chosen];
    for (std::size_t k = 0; k < row.indices.size(); ++k) centre[row.indices[k]] = static_cast<double>(row.values[k]);
    centres.insert(centres.end(), centre.begin(), centre.end());
    nearest_centre const newest(std::move(centre), rows.features());
    double total = 0;
    for (std::size_t i = 0; i < rows.size(); ++i)
      total += distance[i] = std::min(distance[i], newest.to(rows[i]).squared_distance);
    double left = random.uniform() * total;
    chosen = random.below(rows.size());
    for (std::size_t i = 0; i < rows.size() && left >= 0 && total > 0; ++i)
      if (distance[i] > 0) {
        chosen = i;
        left -= distance[i];
      }
  }
  return centres;
}

/// The centres that sums and counts of rows make: means; an empty cluster's is its first one.
/// @param sums as many as of `first` @param counts one for each centre, of which there is at least one
template <std::floating_point Real>
[[nodiscard]] std::vector<double> k_means_centres(std::span<Real const> sums, std::span<std::int64_t const> counts,
                                                  std::vector<double> first) {
  std::size_t const features = first.size() / counts.size();
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (counts[c] > 0)
      for (std::size_t j = c * features; j < (c + 1) * features; ++j)
        first[j] = static_cast<double>(sums[j]) / static_cast<double>(counts[c]);
  return first;
}

}  // namespace rubato::algorithm
