// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "bench/train/row_order.hpp"
#include "bench/train/workload.hpp"
#include "rubato/data/dataset.hpp"

namespace rubato::bench {

/// Where training data comes from: a file, or else a synthetic set.
struct data_source {
  /// LIBSVM, plain or gzip; or images in idx format ("…images-idx3…", the labels lie beside them in
  /// "…labels-idx1…"), or a directory that holds MNIST's; empty for synthetic data.
  std::string file{};
  /// Held-out data of the same kind. Empty: for LIBSVM `file`.t, for images "t10k…" in place of
  /// "train…", if that exists; else a fifth is held out.
  std::string test_file{};
  std::string synthetic{};  ///< url, ctr, digits or chiller; empty: what goes with the labels
  label_use labels = label_use::signs;  ///< what those of the data stand for
  std::size_t pool = 2;                 ///< of images: see `data::idx_options`
  /// Sizes of a synthetic set; those of a small one unless given. Digits and chillers come with
  /// their features; chillers with whole days, so there may be a few rows more.
  std::optional<std::size_t> rows{}, features{}, nonzeros{};
  row_order shards{};  ///< of the rows to train on
};

/// What was loaded, and how to speak of it.
struct loaded_data {
  data::dataset train;  ///< in the order that was asked for
  data::dataset test;
  std::string name;  ///< "a9a", "synthetic url"
};

/// Reads or makes the data; `seed` decides the shuffle, the split and a synthetic set.
/// @throws data_error, option_error
[[nodiscard]] loaded_data load_data(data_source const& from, std::uint64_t seed);

}  // namespace rubato::bench
