// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "rubato/algorithm/line_range.hpp"

namespace rubato::algorithm {

/// What a worker owns of so many rows or columns: neighbours, in batches that it takes in turn.
class own_batches {
 public:
  /// What worker `rank` of `workers` owns of `all`; nothing, where there are more workers. Sizes differ by at most one.
  /// @param share of what it owns that is in a batch, in (0, 1]
  own_batches(std::size_t all, std::uint32_t rank, std::uint32_t workers, double share) noexcept {
    own_ = line_range::of(all, rank, workers);
    // Compared as real numbers: a very small share asks for more batches than an integer can tell.
    double const wanted = std::ceil(1 / share * (1 - 1e-12));  // 1 / (1.0 / n) may be above n
    if (own_.size() != 0)
      batches_ = wanted < static_cast<double>(own_.size()) ? static_cast<std::size_t>(wanted) : own_.size();
  }

  /// The stretch that the worker owns, over all its batches.
  [[nodiscard]] line_range all() const noexcept { return own_; }
  /// After how many iterations each batch has had its turn; at least 1.
  [[nodiscard]] std::size_t batches() const noexcept { return batches_; }
  /// The batch of iteration `i`; empty where the worker owns nothing. @pre `i` is at least 0
  [[nodiscard]] line_range at_step(std::int64_t i) const noexcept {
    auto const [first, last] = line_range::of(own_.size(), static_cast<std::size_t>(i) % batches_, batches_);
    return {own_.first + first, own_.first + last};
  }

 private:
  line_range own_{};
  std::size_t batches_ = 1;
};

}  // namespace rubato::algorithm
