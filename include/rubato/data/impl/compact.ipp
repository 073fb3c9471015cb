// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/data/compact.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace rubato::data {
namespace {

std::vector<std::uint32_t> features_in(dataset_view batch) {
  std::vector<std::uint32_t> found;
  found.reserve(batch.nonzeros());
  for (example const row : batch) {
    found.insert(found.end(), row.indices.begin(), row.indices.end());
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace

compact_batch compact(dataset_view batch) {
  std::vector<std::uint32_t> const features = features_in(batch);
  dataset_builder rows(features.size());
  rows.reserve(batch.size(), batch.nonzeros());
  std::vector<std::uint32_t> local;
  for (example const row : batch) {
    local.clear();
    auto from = features.begin();  // a row's indices increase, so the search goes on where it was
    for (std::uint32_t const index : row.indices) {
      from = std::lower_bound(from, features.end(), index);
      local.push_back(static_cast<std::uint32_t>(from - features.begin()));
    }
    rows.add(row.label, local, row.values);
  }
  std::vector<key> keys;
  keys.reserve(features.size());
  for (std::uint32_t const feature : features) keys.emplace_back(feature);
  return {.keys = std::move(keys), .rows = rows.build()};
}

}  // namespace rubato::data
