// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rubato/algorithm/lasso_objective.hpp"
#include "rubato/algorithm/lasso_options.hpp"
#include "rubato/algorithm/own_batches.hpp"
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
  explicit lasso_fresh_residual(data::dataset rows) : rows_(std::move(rows)) {}

  template <class Worker>
  void operator()(Worker& worker) const {
    auto const [first, count] = own_batches(rows_.size(), worker.rank(), worker.count(), 1).all();
    data::dataset_view const own = rows_.rows().slice(first, count);
    std::vector<Real> w(rows_.features());
    worker[table<0>].pull(w);
    std::vector<key> keys;
    for (std::size_t i = first; i < first + count; ++i) keys.emplace_back(i);
    worker[table<1>].push(keys, lasso_residual(own, std::span<Real const>(w)));
    worker.step(static_cast<double>(own.nonzeros()));
  }

 private:
  data::dataset rows_;
};

/// What the workers of the descent do: each owns a stretch of columns, and nobody else pushes to their
/// coordinates of w. In a clock it pulls the residual, minimizes F over the coordinates of a batch one after the
/// other, each time with its own moves in the residual (σ times, see `lasso_options::damping`), and pushes what
/// it has changed of w and of the residual. Coordinates that soft-thresholding puts to 0 are exactly 0 in the
/// table, where each step is a commit. `step` is priced at the stored values of the batch.
///
/// What is pushed is rounded, so after C clocks of M workers a row's residual has drifted from y − Xw by up to
/// about C u (M max|r_i| + Σ_j |x_ij w_j|), with u = 6·10⁻⁸ for float and 10⁻¹⁶ for double; by far less as
/// coordinates settle. A new round (`lasso_options::rounds`) begins without it.
/// Immutable: workers share it, in whatever threads. Source: 001 §5 and its [5], Shotgun.
template <std::floating_point Real>
class lasso_descent {
 public:
  lasso_descent(data::columns x, lasso_options const& options) : x_(std::move(x)), options_(options) {}

  template <class Worker>
  void operator()(Worker& worker, iteration_range todo) const {
    own_batches const own(x_.size(), worker.rank(), worker.count(), options_.batch);
    double const damping =
        options_.damping ? *options_.damping : *options_.safe_damping(worker.count(), x_.size());
    state s{.first = own.all().first,
            .sigma = 1 / damping,
            .w = std::vector<Real>(own.all().count),
            .residual = std::vector<Real>(x_.rows()),
            .change = std::vector<Real>(x_.rows())};
    std::vector<key> coordinates;
    for (std::size_t j = 0; j < s.w.size(); ++j) coordinates.emplace_back(s.first + j);
    worker[table<0>].pull(coordinates, s.w);
    for (std::int64_t const i : todo) {
      auto const batch = own.at_step(i);
      if (options_.how == exchange::whole) move_whole(worker, batch, s);
      else move_by_key(worker, batch, s);
      worker.step(s.work);
    }
  }

 private:
  struct state {
    std::size_t first;           ///< of the own columns
    double sigma;
    std::vector<Real> w;         ///< the own coordinates, rounded as the table rounds them
    std::vector<Real> residual;  ///< as it was pulled
    std::vector<Real> change;    ///< of it, by own moves since; zeros in between
    double work = 0;
  };

  template <class Worker>
  void move_whole(Worker& worker, own_batches::part batch, state& s) const {
    worker[table<1>].pull(s.residual);
    descend(worker, batch, s);
    worker[table<1>].push(s.change);
    s.change.assign(s.change.size(), 0);
  }

  template <class Worker>
  void move_by_key(Worker& worker, own_batches::part batch, state& s) const {
    std::vector<bool> occurs(x_.rows());
    std::vector<key> rows;
    for (std::size_t j = batch.first; j < batch.first + batch.count; ++j)
      for (auto const [row, value] : x_[j]) occurs[row] = true;
    for (std::size_t i = 0; i < occurs.size(); ++i)
      if (occurs[i]) rows.emplace_back(i);
    std::vector<Real> some(rows.size());
    worker[table<1>].pull(rows, some);
    for (std::size_t k = 0; k < rows.size(); ++k) s.residual[rows[k].index()] = some[k];
    descend(worker, batch, s);
    for (std::size_t k = 0; k < rows.size(); ++k) some[k] = std::exchange(s.change[rows[k].index()], Real{0});
    worker[table<1>].push(rows, some);
  }

  /// One pass over the batch; pushes what it has changed of w.
  template <class Worker>
  void descend(Worker& worker, own_batches::part batch, state& s) const {
    std::vector<key> moved;
    std::vector<Real> moves;
    s.work = 0;
    for (std::size_t j = batch.first; j < batch.first + batch.count; ++j) {
      Real& w = s.w[j - s.first];
      Real const move = static_cast<Real>(minimizer(j, static_cast<double>(w), s) - static_cast<double>(w));
      s.work += static_cast<double>(x_[j].size());
      if (move == 0) continue;
      w += move;
      for (auto const [row, value] : x_[j]) s.change[row] -= static_cast<Real>(value) * move;
      moved.emplace_back(j);
      moves.push_back(move);
    }
    worker[table<0>].push(moved, moves);
  }

  /// Of (1/n)(−d x_j·r + σ/2 |x_j|² d²) + λ |w_j + d|, by soft-thresholding: w_j + d, from w_j = `w`.
  [[nodiscard]] double minimizer(std::size_t j, double w, state const& s) const {
    double const n = static_cast<double>(x_.rows());
    double const curvature = s.sigma * x_.squared_norm(j) / n;
    if (curvature == 0) return options_.lambda == 0 ? w : 0;
    double product = 0;
    for (auto const [row, value] : x_[j])
      product += static_cast<double>(value) *
                 (static_cast<double>(s.residual[row]) + s.sigma * static_cast<double>(s.change[row]));
    double const at = curvature * w + product / n;
    return at > options_.lambda    ? (at - options_.lambda) / curvature
           : at < -options_.lambda ? (at + options_.lambda) / curvature
                                   : 0;
  }

  data::columns x_;
  lasso_options options_;
};

/// The stages of the Lasso in a task, by whose numbers its report can be read.
struct lasso_stages {
  stage_ref residual;
  stage_ref descent;
};

/// Appends the Lasso to what a task does: in each round the residual computed anew, then clocks of descent.
///
///     auto t = algorithm::make_lasso_task(rows);
///     algorithm::lasso(t, rows, {.lambda = 0.01, .clocks = 200, .descent = {.workers = 4}});
///     engine.submit(t).wait();
///     use(t.parameters());
///
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
