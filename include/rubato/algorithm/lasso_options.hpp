// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "rubato/algorithm/batch_part.hpp"
#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/storage/kkt_filter.hpp"
#include "rubato/task/stage.hpp"

namespace rubato::algorithm {

/// The Lasso by parallel coordinate descent: what it does, and how.
struct lasso_options {
  double lambda = 0.1;        ///< λ, at least 0; from max |x_j·y| / n on, w is 0
  std::int64_t clocks = 100;  ///< batches that each worker goes over in a round
  std::int64_t rounds = 1;    ///< each begins with the residual computed anew from w
  double batch = 1;           ///< share of a worker's columns that it moves in a clock, in (0, 1]
  /// By what a worker's moves are shortened, in (0, 1]: it minimizes as if the quadratic term were 1/damping times
  /// as large, so soft-thresholding still ends at exact zeros. Empty: `safe_damping`, with which the objective does
  /// not end above where it began, however correlated columns are; more of it converges faster where they are not.
  /// **1 is coordinate descent without damping, and diverges** when workers move correlated columns in the same
  /// clock. Bradley et al., "Parallel coordinate descent for L1-regularized loss minimization" (Shotgun), ICML 2011,
  /// show that it converges for up to about features/ρ columns at a time, with ρ the spectral radius of XᵀX for
  /// columns of length 1: many where they hardly correlate, one where they are all alike.
  std::optional<double> damping{};
  exchange how = exchange::whole;  ///< of the residual: all of it, or the rows in which a batch of columns occurs
  /// Which columns are left out for a while: those whose w_j is 0 and would stay so; off unless set. It saves the
  /// work on them, and what is read for them: all of the residual in clocks that leave out a worker's whole batch,
  /// and by key also the rows in which only they occur. On the 1000 rows and 47,117 features of RCV1's sample
  /// (λ = 0.002, four workers, by key) passes = 10 saves 80% of the work, and half of what is read.
  /// The first and the last pass of a round go over all columns; where the degree is searched for, those of each part
  /// of the stage. So the result is as near to the optimum as without it if columns that become active have clocks
  /// left to move in: more than `passes` passes of them. Without a bound on staleness, nothing keeps a worker without
  /// active columns from ending, its last pass included, while others have clocks to go.
  kkt_filter filter{};
  /// Degree, protocol, which sends and folds all, and so on; iterations and cleared tables are the algorithm's.
  stage_options residual{};  ///< that computes it; its protocol is of no influence
  stage_options descent{};  ///< the descent, which moves the coordinates

  /// The damping when none is given: 1/σ for σ = 1 + (M − 1)(2s + 1)p, with M workers that own columns, staleness s
  /// and commits of p steps. Under BSP that is 1/M, and the objective does not rise in any clock.
  ///
  /// Why: F's quadratic term adds (1/n)⟨Xd, Xe⟩ ≤ (1/2n)(|Xd|² + |Xe|²) for each two moves d, e of which one
  /// was made without seeing the other; there are (M − 1)(2s + 1)p such e for each d (clocks c − s … c + s of the
  /// others). A worker that counts |Xd|² σ times instead of once has paid for all of them beforehand. With s = 0 this
  /// is the safe σ' = K of Ma et al., "Adding vs. averaging in distributed primal-dual optimization", ICML 2015,
  /// applied to the Lasso by Smith et al., "CoCoA: a general framework for communication-efficient distributed
  /// optimization", JMLR 2018; for s > 0 it is the sum above over the whole run.
  /// The bound is for the worst case: on a9a (λ = 0.01, four workers, staleness 2) 1/16 comes within 0.13% of the
  /// optimum in 800 clocks and 1/4 within 0.14% in 200, nearly as under BSP; 1 diverges there under BSP.
  /// Nothing, where staleness has no bound or the pace changes: nothing safe is known there, and 001 §5 has no
  /// asynchronous Lasso either.
  [[nodiscard]] std::optional<double> safe_damping(std::uint32_t workers, std::size_t columns) const {
    staleness const bound = descent.protocol.admission.bound();
    if (bound.is_infinite() || descent.protocol.pace.conducted()) return std::nullopt;
    auto const owners = std::max(std::min(static_cast<double>(workers), static_cast<double>(columns)), 1.0);
    auto const steps = static_cast<double>(descent.protocol.pace.due({}).steps);
    return 1 / (1 + (owners - 1) * (2 * static_cast<double>(bound.clocks()) + 1) * steps);
  }

  /// @throws option_error naming the option and what was expected
  void check() const {
    detail::expect(lambda >= 0 && std::isfinite(lambda), "lasso: lambda must be finite and at least 0");
    detail::expect(clocks >= 1, "lasso: clocks must be at least 1");
    detail::expect(rounds >= 1, "lasso: rounds must be at least 1");
    detail::expect(batch > 0 && batch <= 1, "lasso: batch must be above 0 and at most 1, a share of the columns");
    detail::expect(!damping || (*damping > 0 && *damping <= 1), "lasso: damping must be above 0 and at most 1");
    detail::expect(damping || safe_damping(1, 1),
                   "lasso: damping must be given for a protocol without a bound on what a worker has not seen");
    filter.check();
    detail::expect(filter.off() || lambda > 0, "lasso: lambda must be above 0 where there is a filter");
    detail::expect_unset(residual, "lasso: residual");
    detail::expect_unset(descent, "lasso: descent");
    detail::expect_all_folded(residual, "lasso: residual");
    detail::expect_all_folded(descent, "lasso: descent");
    detail::expect(!residual.workers.is_automatic(),
                   "lasso: residual is one iteration, expected a number of workers");
  }
};

}  // namespace rubato::algorithm
