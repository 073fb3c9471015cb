// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rubato/data/dataset.hpp>

namespace rubato::data {

/// What synthetic data should look like. The defaults make a small set that trains in a moment.
struct synthetic_options {
  std::size_t rows = 10'000;  ///< how many to draw
  std::size_t features = 10'000;  ///< length of a weight vector; at least 1
  /// Stored values in each row; at most `features`.
  std::size_t nonzeros_per_row = 50;
  /// The feature of rank r is drawn with probability about r^-exponent; 0 is uniform. In [0, 4].
  double exponent = 1.0;
  /// Chance that a feature has a say in the label. In (0, 1].
  double informative = 0.2;
  /// How much the features of a row agree with each other: every row leans to one class, and passes
  /// over a feature that speaks for the other one with this probability. 0 makes labels that are
  /// hard to learn from few rows; real click and URL data are far from that. In [0, 1].
  double contrast = 0.7;
  /// Share of rows that the hidden model calls positive. In (0, 1).
  double positive_share = 0.5;
  /// Chance that a label is flipped afterwards. In [0, 0.5].
  double label_noise = 0.02;
  /// All values of a row equal, as in one-hot data; otherwise they vary threefold.
  bool binary_values = false;
  std::uint64_t seed = 1;  ///< of all draws

  /// Shaped like the malicious-URL set in Table 2 of "Heterogeneity-aware Distributed Parameter
  /// Servers" (SIGMOD 2017): 2.4M rows x 3.2M features, 500 values per row, both sizes times
  /// `scale`. The share of positives is the real set's third.
  [[nodiscard]] static synthetic_options url_like(double scale = 0.01, std::uint64_t seed = 1);

  /// Shaped like the click-through set in the same table: 300M rows x 58M features, 100 one-hot
  /// values per row, both sizes times `scale`. The table does not tell the share of clicks; here it
  /// is 5%, with little label noise.
  [[nodiscard]] static synthetic_options ctr_like(double scale = 0.0001, std::uint64_t seed = 1);
};

/// Sparse binary-classification data with power-law features and labels from a hidden sparse linear
/// model. Labels are -1 and +1; each row has length 1, so learning rates carry over between sizes.
/// Which features are popular is spread over the whole index range, as in hashed data.
///
/// The result depends on the options only, bit for bit, on every compiler (built without
/// floating-point contraction). Throws option_error on an option out of range.
/// Cost: O(rows * nonzeros_per_row + features) draws and a sort of each row; beside the result
/// 8 bytes per row and per feature.
[[nodiscard]] dataset make_synthetic(synthetic_options const& options = {});

}  // namespace rubato::data
