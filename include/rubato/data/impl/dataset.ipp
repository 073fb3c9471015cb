// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/data/dataset.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"

namespace rubato::data {
namespace {

constexpr std::uint64_t features_limit = std::uint64_t{1} << 32;  // indices are 32 bits wide

std::vector<std::size_t> shuffled_rows(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> rows(count);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  random_stream(seed).shuffle(std::span(rows));
  return rows;
}

}  // namespace

dataset::dataset() : dataset(detail::csr{}) {}

dataset::dataset(detail::csr&& rows)
    : rows_(std::make_shared<detail::csr const>(std::move(rows))) {}

dataset dataset::shuffled(std::uint64_t seed) const { return gather(shuffled_rows(size(), seed)); }

held_out dataset::split(double test_share, std::uint64_t seed) const {
  if (!(test_share >= 0 && test_share <= 1)) {
    throw option_error(fmt::format("split: a test share of {}, expected 0 to 1", test_share));
  }
  auto const tests = std::min(
      size(), static_cast<std::size_t>(std::floor(test_share * static_cast<double>(size()) + 0.5)));
  std::vector<std::size_t> rows = shuffled_rows(size(), seed);
  auto const middle = rows.begin() + static_cast<std::ptrdiff_t>(tests);
  std::sort(rows.begin(), middle);
  std::sort(middle, rows.end());
  return {.train = gather({middle, rows.end()}), .test = gather({rows.begin(), middle})};
}

dataset dataset::gather(std::span<std::size_t const> rows) const {
  std::size_t nonzeros = 0;
  for (std::size_t const row : rows) {
    if (row >= size()) {
      throw option_error(fmt::format("gather: row {}, expected one of {} rows", row, size()));
    }
    nonzeros += (*this)[row].values.size();
  }
  // Exact sizes and no checks: these rows went through a builder already.
  detail::csr out;
  out.features = features();
  out.labels.reserve(rows.size());
  out.offsets.reserve(rows.size() + 1);
  out.indices.reserve(nonzeros);
  out.values.reserve(nonzeros);
  for (std::size_t const row : rows) {
    auto const [label, indices, values] = (*this)[row];
    out.labels.push_back(label);
    out.indices.insert(out.indices.end(), indices.begin(), indices.end());
    out.values.insert(out.values.end(), values.begin(), values.end());
    out.offsets.push_back(out.values.size());
  }
  return dataset(std::move(out));
}

dataset_builder::dataset_builder(std::size_t features) : features_fixed_(features) {
  if (features > features_limit) {
    throw option_error(
        fmt::format("dataset_builder: {} features, expected at most 2^32", features));
  }
}

void dataset_builder::check(float label, std::span<std::uint32_t const> indices,
                            std::span<float const> values) const {
  auto const fail = [&](std::string const& reason) {
    throw data_error(fmt::format("row {}: {}", size(), reason));
  };
  if (!std::isfinite(label)) fail(fmt::format("label {}, expected a finite number", label));
  if (indices.size() != values.size()) {
    fail(fmt::format("{} indices and {} values, expected as many of both", indices.size(),
                     values.size()));
  }
  for (std::size_t k = 0; k < indices.size(); ++k) {
    if (!std::isfinite(values[k])) {
      fail(fmt::format("value {} at index {}, expected a finite number", values[k], indices[k]));
    }
    if (k > 0 && indices[k] <= indices[k - 1]) {
      fail(fmt::format("index {} comes after {}, expected increasing indices", indices[k],
                       indices[k - 1]));
    }
  }
  if (features_fixed_ != 0 && !indices.empty() && indices.back() >= features_fixed_) {
    fail(fmt::format("index {}, expected less than {} features", indices.back(), features_fixed_));
  }
}

void dataset_builder::add(float label, std::span<std::uint32_t const> indices,
                          std::span<float const> values) {
  check(label, indices, values);
  rows_.labels.push_back(label);
  rows_.indices.insert(rows_.indices.end(), indices.begin(), indices.end());
  rows_.values.insert(rows_.values.end(), values.begin(), values.end());
  rows_.offsets.push_back(rows_.values.size());
  if (!indices.empty()) {
    rows_.features = std::max(rows_.features, std::size_t{indices.back()} + 1);
  }
}

void dataset_builder::reserve(std::size_t rows, std::size_t nonzeros) {
  rows_.labels.reserve(rows);
  rows_.offsets.reserve(rows + 1);
  rows_.indices.reserve(nonzeros);
  rows_.values.reserve(nonzeros);
}

dataset dataset_builder::build() {
  if (features_fixed_ != 0) rows_.features = features_fixed_;
  return dataset(std::exchange(rows_, detail::csr{}));
}

}  // namespace rubato::data
