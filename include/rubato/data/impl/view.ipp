// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/data/view.hpp"

#include <cmath>

#include <fmt/format.h>

#include "rubato/core/error.hpp"

namespace rubato::data {

std::size_t dataset_view::nonzeros() const noexcept {
  if (count_ == 0) return 0;
  if (stride_ == 1) return rows_->offsets[first_ + count_] - rows_->offsets[first_];
  std::size_t sum = 0;
  for (example const row : *this) sum += row.values.size();
  return sum;
}

dataset_view dataset_view::shard(std::size_t rank, std::size_t count, sharding how) const {
  if (rank >= count) {
    throw option_error(
        fmt::format("shard: rank {} of {}, expected a rank below the count", rank, count));
  }
  auto const [first, size] = detail::even_part(count_, count, rank);
  if (how == sharding::contiguous) return slice(first, size);
  dataset_view part = slice(rank, size);
  part.stride_ = stride_ * count;
  return part;
}

batch_range dataset_view::batches(std::size_t batch_size) const {
  if (batch_size == 0) throw option_error("batches: a batch size of 0, expected at least 1");
  std::size_t const count = count_ / batch_size + (count_ % batch_size != 0 ? 1 : 0);
  return {*this, count, batch_size};
}

batch_range dataset_view::batches(fraction of) const {
  if (!(of.of_rows > 0 && of.of_rows <= 1)) {
    throw option_error(
        fmt::format("batches: a fraction of {}, expected more than 0 and at most 1", of.of_rows));
  }
  // 1 / (1.0 / n) may come out a little above n: without the allowance that would be n + 1 batches.
  double const wanted = std::ceil(1 / of.of_rows * (1 - 1e-12));
  bool const fits = wanted < static_cast<double>(count_);
  return {*this, fits ? static_cast<std::size_t>(wanted) : count_, 0};
}

}  // namespace rubato::data
