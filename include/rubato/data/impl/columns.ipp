// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/data/columns.hpp"

namespace rubato::data {

columns::columns(dataset_view rows) {
  constexpr std::uint64_t most = std::uint64_t{std::numeric_limits<std::uint32_t>::max()} + 1;
  if (rows.size() > most)
    throw option_error("columns: the data set has " + std::to_string(rows.size()) + " rows, expected at most 2^32");
  state s{rows.size(), std::vector<std::size_t>(rows.features() + 1), {}, std::vector<double>(rows.features())};
  for (example const row : rows)
    for (std::uint32_t const j : row.indices) ++s.first[j + std::size_t{1}];
  std::partial_sum(s.first.begin(), s.first.end(), s.first.begin());

  s.entries.resize(s.first.back());
  std::vector<std::size_t> next = s.first;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    example const row = rows[i];
    for (std::size_t k = 0; k < row.indices.size(); ++k) {
      std::uint32_t const j = row.indices[k];
      double const value = static_cast<double>(row.values[k]);
      s.entries[next[j]++] = {static_cast<std::uint32_t>(i), row.values[k]};
      s.squared_norms[j] += value * value;
    }
  }
  state_ = std::make_shared<state const>(std::move(s));
}

}  // namespace rubato::data
