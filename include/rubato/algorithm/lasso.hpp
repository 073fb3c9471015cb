// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "rubato/algorithm/lasso_descent.hpp"
#include "rubato/algorithm/lasso_objective.hpp"
#include "rubato/algorithm/lasso_options.hpp"
#include "rubato/algorithm/line_range.hpp"
#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/core/table.hpp"
#include "rubato/data/columns.hpp"
#include "rubato/data/dataset.hpp"
#include "rubato/partition/range.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/task/task.hpp"

namespace rubato::algorithm {

/// A task for the Lasso: table 0 is w, a row for each feature; table 1 the residual y − Xw, one for each row.
template <std::floating_point Real = double>
using lasso_task = task<dense<Real, sum, range>, dense<Real, sum, range>>;

/// @param init where w begins, or nothing for zeros; read when the task is submitted
template <std::floating_point Real = double>
[[nodiscard]] lasso_task<Real> make_lasso_task(data::dataset_view rows, std::span<Real const> init = {}) {
  return lasso_task<Real>({.rows = rows.features(), .init = init}, {.rows = rows.size()});
}

/// What the workers of the stage do that computes the residual, which has been cleared: each for its share of
/// the rows. `step` is priced at their stored values. Immutable: workers share it.
template <std::floating_point Real>
class lasso_fresh_residual {
 public:
  /// Computes the residual of these rows, labels minus predictions.
  explicit lasso_fresh_residual(data::dataset rows) : rows_(std::move(rows)) {}

  template <class Worker>
  void operator()(Worker& worker) const {
    detail::expect_not_joined(worker, "lasso");
    auto const mine = line_range::of(rows_.size(), worker.rank(), worker.count());
    data::dataset_view const own = rows_.rows().slice(mine.first, mine.size());
    std::vector<Real> w(rows_.features());
    worker[table<0>].pull(w);
    std::vector<key> keys;
    for (std::size_t i = mine.first; i < mine.last; ++i) keys.emplace_back(i);
    worker[table<1>].push(keys, lasso_residual(own, std::span<Real const>(w)));
    worker.step(static_cast<double>(own.nonzeros()));
  }

 private:
  data::dataset rows_;
};

/// The stages of the Lasso in a task, by whose numbers its report can be read.
struct lasso_stages {
  stage_ref residual;  ///< computes the residual anew
  stage_ref descent;  ///< the descent, which moves the coordinates
};

/// Appends the Lasso to what a task does: in each round the residual computed anew, then clocks of descent.
///
///     auto t = algorithm::make_lasso_task(rows);
///     algorithm::lasso(t, rows, {.lambda = 0.01, .clocks = 200, .descent = {.workers = 4}});
///     engine.submit(t).wait();
///     use(t.parameters());
///
/// Workers own rows and columns by rank, so none may join a stage that is under way: its body throws usage_error.
/// @param rows with real labels (`label_kind::raw`); kept by the task, and turned round once
/// @throws option_error naming the option and what was expected
/// Cost: O(stored values) beforehand. Source: 001 §5; see `lasso_options` for damping.
template <std::floating_point Real>
lasso_stages lasso(lasso_task<Real>& t, data::dataset const& rows, lasso_options const& options) {
  options.check();
  detail::expect(!rows.empty() && rows.features() != 0, "lasso: there must be rows and features");
  stage_options residual = options.residual, descent = options.descent;
  residual.cleared = {1};
  descent.iterations = options.clocks;
  lasso_stages const s{t.stage(std::move(residual), lasso_fresh_residual<Real>(rows)),
                       t.stage(std::move(descent), lasso_descent<Real>(data::columns(rows), options))};
  t.repeat(options.rounds, s.residual, s.descent);
  return s;
}

}  // namespace rubato::algorithm
