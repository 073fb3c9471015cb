// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rubato/algorithm/kkt_active_set.hpp"
#include "rubato/algorithm/lasso_options.hpp"
#include "rubato/algorithm/own_batches.hpp"
#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/core/table.hpp"
#include "rubato/data/columns.hpp"
#include "rubato/task/stage.hpp"

namespace rubato::algorithm {

/// What the workers of the descent do: each owns a stretch of columns, and nobody else pushes to their
/// coordinates of w. In a clock it pulls the residual, minimizes F over the coordinates of a batch one after the
/// other, each time with its own moves in the residual (σ times, see `lasso_options::damping`), and pushes what
/// it has changed of w and of the residual. Coordinates that soft-thresholding puts to 0 are exactly 0 in the
/// table, where each step is a commit. `step` is priced at the stored values of the columns that it goes over: those
/// of the batch which `lasso_options::filter` does not leave out. Where it leaves out all of them, nothing is pulled
/// or pushed; by key, the residual's rows are those in which the others occur.
///
/// What is pushed is rounded, so after C clocks of M workers a row's residual has drifted from y − Xw by up to
/// about C u (M max|r_i| + Σ_j |x_ij w_j|), with u = 6·10⁻⁸ for float and 10⁻¹⁶ for double; by far less as
/// coordinates settle. A new round (`lasso_options::rounds`) begins without it.
/// Immutable: workers share it, in whatever threads. Source: 001 §5 and its [5], Shotgun.
template <std::floating_point Real>
class lasso_descent {
 public:
  /// @param x the features, as columns @param options as checked
  lasso_descent(data::columns x, lasso_options const& options) : x_(std::move(x)), options_(options) {}

  template <class Worker>
  void operator()(Worker& worker, iteration_range todo) const {
    detail::expect_not_joined(worker, "lasso");
    own_batches const own(x_.size(), worker.rank(), worker.count(), options_.batch);
    double const damping =
        options_.damping ? *options_.damping : *options_.safe_damping(worker.count(), x_.size());
    state s{.first = own.all().first,
            .sigma = 1 / damping,
            .active = kkt_active_set(options_.filter, own.all().size(), options_.lambda),
            .columns = {},
            .w = std::vector<Real>(own.all().size()),
            .residual = std::vector<Real>(x_.rows()),
            .change = std::vector<Real>(x_.rows())};
    std::vector<key> coordinates;
    for (std::size_t j = 0; j < s.w.size(); ++j) coordinates.emplace_back(s.first + j);
    worker[table<0>].pull(coordinates, s.w);
    auto const in_a_pass = static_cast<std::int64_t>(own.batches());
    for (std::int64_t const i : todo) {
      s.active.begin_pass((i - *todo.begin()) / in_a_pass, *todo.end() - i <= in_a_pass);
      choose_columns(own.at_step(i), s);
      s.work = 0;
      if (!s.columns.empty() || options_.filter.off()) {
        if (options_.how == exchange::whole) move_whole(worker, s);
        else move_by_key(worker, s);
      }
      worker.step(s.work);
    }
  }

 private:
  struct state {
    std::size_t first;  ///< of the own columns
    double sigma;
    kkt_active_set active;             ///< of the own columns
    std::vector<std::size_t> columns;  ///< of the batch, that this clock goes over
    std::vector<Real> w;               ///< the own coordinates, rounded as the table rounds them
    std::vector<Real> residual;        ///< as it was pulled
    std::vector<Real> change;          ///< of it, by own moves since; zeros in between
    double work = 0;
  };

  static void choose_columns(line_range batch, state& s) {
    s.columns.clear();
    for (std::size_t j = batch.first; j < batch.last; ++j)
      if (s.active.contains(j - s.first)) s.columns.push_back(j);
  }

  template <class Worker>
  void move_whole(Worker& worker, state& s) const {
    worker[table<1>].pull(s.residual);
    descend(worker, s);
    worker[table<1>].push(s.change);
    s.change.assign(s.change.size(), 0);
  }

  template <class Worker>
  void move_by_key(Worker& worker, state& s) const {
    std::vector<bool> occurs(x_.rows());
    std::vector<key> rows;
    for (std::size_t const j : s.columns)
      for (auto const [row, value] : x_[j]) occurs[row] = true;
    for (std::size_t i = 0; i < occurs.size(); ++i)
      if (occurs[i]) rows.emplace_back(i);
    std::vector<Real> some(rows.size());
    worker[table<1>].pull(rows, some);
    for (std::size_t k = 0; k < rows.size(); ++k) s.residual[rows[k].index()] = some[k];
    descend(worker, s);
    for (std::size_t k = 0; k < rows.size(); ++k) some[k] = std::exchange(s.change[rows[k].index()], Real{0});
    worker[table<1>].push(rows, some);
  }

  /// Goes over the chosen columns once; pushes what it has changed of w.
  template <class Worker>
  void descend(Worker& worker, state& s) const {
    std::vector<key> moved;
    std::vector<Real> moves;
    for (std::size_t const j : s.columns) {
      Real& w = s.w[j - s.first];
      double const before = static_cast<double>(w), slope = product(j, s) / static_cast<double>(x_.rows());
      s.active.found(j - s.first, before, -slope);
      Real const move = static_cast<Real>(minimizer(j, before, slope, s.sigma) - before);
      s.work += static_cast<double>(x_[j].size());
      if (move == 0) continue;
      w += move;
      for (auto const [row, value] : x_[j]) s.change[row] -= static_cast<Real>(value) * move;
      moved.emplace_back(j);
      moves.push_back(move);
    }
    worker[table<0>].push(moved, moves);
  }

  /// x_j·r, with own moves in the residual r σ times.
  [[nodiscard]] double product(std::size_t j, state const& s) const {
    double sum = 0;
    for (auto const [row, value] : x_[j])
      sum += static_cast<double>(value) *
             (static_cast<double>(s.residual[row]) + s.sigma * static_cast<double>(s.change[row]));
    return sum;
  }

  /// Of −d slope + σ/2n |x_j|² d² + λ |w_j + d| for slope = x_j·r / n, by soft-thresholding: w_j + d, from
  /// w_j = `w`.
  [[nodiscard]] double minimizer(std::size_t j, double w, double slope, double sigma) const {
    double const curvature = sigma * x_.squared_norm(j) / static_cast<double>(x_.rows());
    if (curvature == 0) return options_.lambda == 0 ? w : 0;
    double const at = curvature * w + slope;
    return at > options_.lambda    ? (at - options_.lambda) / curvature
           : at < -options_.lambda ? (at + options_.lambda) / curvature
                                   : 0;
  }

  data::columns x_;
  lasso_options options_;
};

}  // namespace rubato::algorithm
