// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "rubato/algorithm/batch_part.hpp"
#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/task/stage.hpp"

namespace rubato::algorithm {

/// Where an epoch of SVRG takes its full gradient.
enum class svrg_snapshot {
  last,  ///< where the epoch before has ended (004 Alg. 1)
  mean,  ///< at the mean of its iterates (SVRG++); steps go on from the last one all the same
};

/// SVRG and its relatives: an epoch is a full gradient μ at an anchor x̃, then steps
/// w ← w − η (∇f_batch(w) − ∇f_batch(x̃) + μ), whose variance goes to 0 as w and x̃ come near the
/// optimum.
struct svrg_options {
  std::int64_t epochs = 10;  ///< at least 1
  std::size_t batch = 1;     ///< rows of a step, shared out among the workers; at least 1
  std::int64_t steps = 0;    ///< of the first epoch; 0: as many as go over twice the rows that there are
  double growth = 1;  ///< each epoch has so many times the steps of the one before, rounded down; at least 1
  double rate = 0.1;  ///< η; above 0
  svrg_snapshot snapshot = svrg_snapshot::last;  ///< where an epoch takes its full gradient
  exchange how = exchange::whole;  ///< of the steps; a full gradient pulls all, and pushes what has occurred
  /// Iterations of a full gradient, each on its share of the rows: parts that a search for its degree can
  /// run at different degrees. Those of one part are pushed together. At least 1; times the rows, below 2^64.
  std::int64_t slices = 1;
  std::uint64_t seed = 1;  ///< of the draws of batches
  /// Degree, protocol, search and so on of the two stages; iterations and cleared tables are the algorithm's. That of
  /// the full gradient sends and folds all.
  stage_options full_gradient{};
  stage_options small_steps{};  ///< the same for the stage of the steps

  /// SVRG++: twice as many steps in each epoch, anchors at the means of the iterates. For sums that are
  /// convex and not strongly so. Source: Allen-Zhu and Yuan, ICML 2016, Alg. 1.
  [[nodiscard]] static svrg_options plus_plus() {
    svrg_options o;
    o.growth = 2;
    o.snapshot = svrg_snapshot::mean;
    return o;
  }

  /// @throws option_error naming the option and what was expected
  void check() const {
    detail::expect(epochs >= 1, "svrg: epochs must be at least 1");
    detail::expect(batch >= 1, "svrg: batch must be at least 1 row");
    detail::expect(steps >= 0, "svrg: steps must be 0, for two scans, or at least 1");
    detail::expect(growth >= 1 && std::isfinite(growth), "svrg: growth must be finite and at least 1");
    detail::expect(rate > 0 && std::isfinite(rate), "svrg: rate must be finite and above 0");
    detail::expect(slices >= 1, "svrg: slices must be at least 1");
    detail::expect_unset(full_gradient, "svrg: full_gradient");
    detail::expect_unset(small_steps, "svrg: small_steps");
    detail::expect_all_folded(full_gradient, "svrg: full_gradient");
  }

  /// Steps of an epoch, counted from 0, on so many rows.
  [[nodiscard]] std::int64_t steps_in(std::int64_t epoch, std::size_t rows) const {
    return static_cast<std::int64_t>(exact_steps(epoch, rows));
  }
  /// Those of the last epoch, which has the most.
  [[nodiscard]] double most_steps(std::size_t rows) const { return exact_steps(epochs - 1, rows); }

 private:
  [[nodiscard]] double exact_steps(std::int64_t epoch, std::size_t rows) const {
    std::int64_t const first = steps != 0 ? steps : detail::steps_of_scan(2 * rows, batch);
    return static_cast<double>(first) * std::pow(growth, static_cast<double>(epoch));
  }
};

}  // namespace rubato::algorithm
