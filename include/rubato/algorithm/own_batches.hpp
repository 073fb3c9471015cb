// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "rubato/data/view.hpp"

namespace rubato::algorithm {

/// What a worker owns of so many rows or columns: neighbours, in batches that it takes in turn.
class own_batches {
 public:
  /// Neighbours by number.
  struct part {
    std::size_t first;
    std::size_t count;
  };

  /// What worker `rank` of `workers` owns of `all`; nothing, where there are more workers. Sizes differ by at most one.
  /// @param share of what it owns that is in a batch, in (0, 1]
  own_batches(std::size_t all, std::uint32_t rank, std::uint32_t workers, double share) noexcept {
    auto const [first, count] = data::detail::even_part(all, workers, rank);
    own_ = {first, count};
    // Compared as real numbers: a very small share asks for more batches than an integer can tell.
    double const wanted = std::ceil(1 / share);
    if (count != 0)
      batches_ = wanted < static_cast<double>(count) ? static_cast<std::size_t>(wanted) : count;
  }

  [[nodiscard]] part all() const noexcept { return own_; }
  /// After how many iterations each batch has had its turn; at least 1.
  [[nodiscard]] std::size_t batches() const noexcept { return batches_; }
  /// The batch of iteration `i`; empty where the worker owns nothing. @pre `i` is at least 0
  [[nodiscard]] part at_step(std::int64_t i) const noexcept {
    auto const [first, count] =
        data::detail::even_part(own_.count, batches_, static_cast<std::size_t>(i) % batches_);
    return {own_.first + first, count};
  }

 private:
  part own_{};
  std::size_t batches_ = 1;
};

}  // namespace rubato::algorithm
