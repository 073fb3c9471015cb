// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "rubato/algorithm/stage_setting.hpp"

namespace rubato::algorithm {

/// Matrix factorization by stochastic gradient descent: what it does, and how.
struct mf_options {
  std::size_t rank = 8;  ///< K: factors of each user and each item; from 1 to 2^24
  /// η, of half the gradient of a rating's part of the objective; finite and above 0. Within a clock each worker
  /// moves its own copy of an item's factors, and servers add these moves up (001's merge is the sum). So one step
  /// over all ratings of an item may go too far where one worker's would not: η × ratings of an item that are under
  /// way × |L_user|² should stay below about 1. Under way are those of a clock of all workers, and of up to s more
  /// under SSP(s). Take a smaller η or smaller batches where an item has very many: on ML-100K, where one has 583,
  /// η = 0.02 is too much for four workers with batch 1, and 0.01, or batch 0.1, is as good as one worker.
  double learning_rate = 0.01;
  double decay = 0;          ///< α: sweep s, from 0, has the rate η / sqrt(α s + 1), as model::decayed_rate
  double l2 = 0.05;          ///< λ; a line with n ratings has λ n times its square as a regulariser
  std::int64_t sweeps = 20;  ///< over all ratings; at least 1
  double batch = 0.1;  ///< share of a worker's ratings in a clock, from 1e-6 to 1; a sweep is ceil(1 / batch) clocks
  std::uint64_t seed = 1;  ///< of the first factors, and of the order of ratings

  /// Clocks in which a worker goes over its ratings once. @pre checked
  [[nodiscard]] std::uint32_t clocks_per_sweep() const noexcept {
    return static_cast<std::uint32_t>(std::ceil(1 / batch * (1 - 1e-12)));  // 1 / (1.0 / n) may be above n
  }

  static constexpr std::size_t rank_max = std::size_t{1} << 24;  ///< the greatest rank

  /// @throws option_error naming the option and what was expected
  void check() const {
    using detail::expect;
    expect(rank >= 1 && rank <= rank_max, "mf: rank must be from 1 to 2^24");
    expect(learning_rate > 0 && std::isfinite(learning_rate), "mf: learning_rate must be finite and above 0");
    expect(decay >= 0 && std::isfinite(decay), "mf: decay must be finite and at least 0");
    expect(l2 >= 0 && std::isfinite(l2), "mf: l2 must be finite and at least 0");
    expect(sweeps >= 1, "mf: sweeps must be at least 1");
    expect(batch >= 1e-6 && batch <= 1, "mf: batch must be a share of the ratings, from 1e-6 to 1");
  }
};

}  // namespace rubato::algorithm
