// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rubato/data/dataset.hpp"

namespace rubato::bench {

/// Where training data comes from: a file, or else a synthetic set.
struct data_source {
  std::string file{};             ///< LIBSVM, plain or gzip; empty for synthetic data
  std::string test_file{};        ///< empty: `file`.t if that exists, else a fifth is held out
  std::string synthetic = "url";  ///< url or ctr, the papers' sets in small
  /// Sizes of a synthetic set; those of a small one unless given.
  std::optional<std::size_t> rows{}, features{}, nonzeros{};
};

/// What was loaded, and how to speak of it.
struct loaded_data {
  data::dataset train;  ///< shuffled
  data::dataset test;
  std::string name;  ///< "a9a", "synthetic url"
};

/// Reads or makes the data; `seed` decides the shuffle, the split and a synthetic set.
/// @throws data_error, option_error
[[nodiscard]] loaded_data load_data(data_source const& from, std::uint64_t seed);

}  // namespace rubato::bench
