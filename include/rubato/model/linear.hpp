// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/ids.hpp>
#include <rubato/data/compact.hpp>
#include <rubato/data/view.hpp>
#include <rubato/model/loss.hpp>

namespace rubato::model {

/// Some coordinates of a vector, ready for a push by key. Keys strictly increase.
template <std::floating_point Real>
struct sparse_vector {
  std::vector<key> keys;  ///< the coordinates that have a value
  std::vector<Real> values;  ///< one for each key
};

/// An l2-regularised linear classifier: finds w that makes
///   mean over rows of loss(y <w, x>)  +  l2 / 2 |w|^2
/// small. With a `residual_loss` it is for regression, and the mean is that of loss(<w, x> - y).
/// It holds no weights; whoever trains it owns them as a span of `Real`.
///
/// Labels y must be -1 and +1, for regression any numbers. There is no offset: data that needs one
/// has a constant feature. A weight span may be longer than the data is wide (a test set in which
/// the last features do not occur), never shorter: usage_error with errc::wrong_size.
///
/// Scores and the objective are accumulated in double, gradients in `Real`; always in row order, so
/// a result depends on the arguments only. Thread safety: all members are const and may run
/// concurrently on one object.
/// Below, d is the length of w and n the number of stored values in the rows at hand.
template <row_loss Loss, std::floating_point Real = float>
struct linear_model {
  /// Weight of the regulariser; finite, and not negative.
  double l2 = 0;
  [[no_unique_address]] Loss loss{};  ///< of a row, with its own parameters

  /// Called by what trains or evaluates with it. @throws option_error unless `l2` is finite and at least 0
  void check() const;

  /// Mean loss plus regulariser; without rows the mean loss counts as 0. Cost: O(n + d).
  [[nodiscard]] double objective(data::dataset_view rows, std::span<Real const> w) const;

  /// Share of rows whose label is predicted, in [0, 1]: +1 where the score is positive, else -1.
  /// 0 without rows. Cost: O(n).
  /// For regression R^2, the share of the labels' variance that the scores explain: 1 where all are
  /// met, below 0 where their mean would be the better guess; 0 where all labels are equal.
  [[nodiscard]] double accuracy(data::dataset_view rows, std::span<Real const> w) const;

  /// Writes the (sub)gradient of `objective` at w. `gradient` is as long as w and does not overlap
  /// it. Cost: O(n + d).
  void gradient(data::dataset_view batch, std::span<Real const> w, std::span<Real> gradient) const;

  /// One local step: writes delta = -eta * gradient without a pass of its own for the scaling.
  /// Without rows delta is 0: a worker that has no data must not shrink what others have learned.
  /// `delta` is as long as w and does not overlap it. Cost: O(n + d), no allocation.
  void local_step(data::dataset_view batch, double eta, std::span<Real const> w,
                  std::span<Real> delta) const;

  /// The same step on the coordinates that occur in the batch, for a push by key. These are
  /// regularised, the others stay as they are: in expectation weights shrink the slower the rarer
  /// their feature is. Cost: O(n log n) and O(n) memory for a moment, whatever d is.
  ///
  /// A worker that also *pulls* by key calls `data::compact` once per batch, and then
  /// `local_step(compact.rows, eta, w_at_keys, delta_at_keys)`, which gives the same numbers.
  void sparse_step(data::dataset_view batch, double eta, std::span<Real const> w,
                   sparse_vector<Real>& delta) const;

 private:
  static constexpr bool regression = residual_loss<Loss>;

  static double score(data::example const& row, std::span<Real const> w) noexcept;
  double cost(data::example const& row, std::span<Real const> w) const noexcept;
  double slope(data::example const& row, std::span<Real const> w) const noexcept;
  double explained(data::dataset_view rows, std::span<Real const> w) const;
  static void expect_weights(data::dataset_view rows, std::span<Real const> w);
  static void expect_output(std::span<Real const> w, std::span<Real> out);
  void write_scaled_gradient(data::dataset_view batch, double factor, std::span<Real const> w,
                             std::span<Real> out) const;
};

/// l2-regularised logistic regression.
template <std::floating_point Real = float>
using logistic_regression = linear_model<logistic_loss, Real>;

/// l2-regularised linear support vector machine.
template <std::floating_point Real = float>
using support_vector_machine = linear_model<hinge_loss, Real>;

/// l2-regularised linear support vector machine for regression.
template <std::floating_point Real = float>
using support_vector_regression = linear_model<epsilon_insensitive_loss, Real>;

template <row_loss Loss, std::floating_point Real>
void linear_model<Loss, Real>::check() const {
  if (!(l2 >= 0) || !std::isfinite(l2)) throw option_error("linear_model: l2 must be finite and at least 0");
}

template <row_loss Loss, std::floating_point Real>
double linear_model<Loss, Real>::objective(data::dataset_view rows, std::span<Real const> w) const {
  check();
  expect_weights(rows, w);
  double sum = 0;
  for (data::example const row : rows) sum += cost(row, w);
  double norm2 = 0;
  for (Real const x : w) norm2 += static_cast<double>(x) * static_cast<double>(x);
  double const mean = rows.empty() ? 0 : sum / static_cast<double>(rows.size());
  return mean + l2 / 2 * norm2;
}

template <row_loss Loss, std::floating_point Real>
double linear_model<Loss, Real>::accuracy(data::dataset_view rows, std::span<Real const> w) const {
  expect_weights(rows, w);
  if (rows.empty()) return 0;
  if constexpr (regression) return explained(rows, w);
  std::size_t right = 0;
  for (data::example const row : rows) {
    if ((score(row, w) > 0) == (row.label > 0)) ++right;
  }
  return static_cast<double>(right) / static_cast<double>(rows.size());
}

template <row_loss Loss, std::floating_point Real>
void linear_model<Loss, Real>::gradient(data::dataset_view batch, std::span<Real const> w,
                                        std::span<Real> gradient) const {
  expect_weights(batch, w);
  expect_output(w, gradient);
  write_scaled_gradient(batch, 1, w, gradient);
}

template <row_loss Loss, std::floating_point Real>
void linear_model<Loss, Real>::local_step(data::dataset_view batch, double eta,
                                          std::span<Real const> w, std::span<Real> delta) const {
  expect_weights(batch, w);
  expect_output(w, delta);
  if (batch.empty()) {
    std::ranges::fill(delta, Real{0});
  } else {
    write_scaled_gradient(batch, -eta, w, delta);
  }
}

template <row_loss Loss, std::floating_point Real>
void linear_model<Loss, Real>::sparse_step(data::dataset_view batch, double eta,
                                           std::span<Real const> w,
                                           sparse_vector<Real>& delta) const {
  expect_weights(batch, w);
  data::compact_batch local = data::compact(batch);
  std::vector<Real> w_at_keys(local.keys.size());
  std::ranges::transform(local.keys, w_at_keys.begin(), [&](key k) { return w[k.index()]; });
  delta.values.resize(local.keys.size());
  local_step(local.rows, eta, w_at_keys, delta.values);
  delta.keys = std::move(local.keys);
}

template <row_loss Loss, std::floating_point Real>
double linear_model<Loss, Real>::score(data::example const& row, std::span<Real const> w) noexcept {
  double sum = 0;
  for (std::size_t k = 0; k < row.indices.size(); ++k) {
    sum += static_cast<double>(w[row.indices[k]]) * static_cast<double>(row.values[k]);
  }
  return sum;
}

template <row_loss Loss, std::floating_point Real>
double linear_model<Loss, Real>::cost(data::example const& row,
                                      std::span<Real const> w) const noexcept {
  double const label = row.label;
  if constexpr (regression)
    return loss.value(score(row, w) - label);
  else
    return loss.value(label * score(row, w));
}

/// Of the cost, in the score.
template <row_loss Loss, std::floating_point Real>
double linear_model<Loss, Real>::slope(data::example const& row,
                                       std::span<Real const> w) const noexcept {
  double const label = row.label;
  if constexpr (regression)
    return loss.slope(score(row, w) - label);
  else
    return loss.slope(label * score(row, w)) * label;
}

template <row_loss Loss, std::floating_point Real>
double linear_model<Loss, Real>::explained(data::dataset_view rows, std::span<Real const> w) const {
  double sum = 0;
  for (data::example const row : rows) sum += static_cast<double>(row.label);
  double const mean = sum / static_cast<double>(rows.size());
  double variance = 0, rest = 0;
  for (data::example const row : rows) {
    double const off_mean = row.label - mean, off_score = row.label - score(row, w);
    variance += off_mean * off_mean;
    rest += off_score * off_score;
  }
  return variance == 0 ? 0 : 1 - rest / variance;
}

template <row_loss Loss, std::floating_point Real>
void linear_model<Loss, Real>::write_scaled_gradient(data::dataset_view batch, double factor,
                                                     std::span<Real const> w,
                                                     std::span<Real> out) const {
  check();
  auto const shrink = static_cast<Real>(factor * l2);
  std::ranges::transform(w, out.begin(), [=](Real x) { return shrink * x; });
  double const per_row = factor / static_cast<double>(batch.size());
  for (data::example const row : batch) {
    double const s = slope(row, w);
    if (s == 0) continue;  // beyond the hinge most rows are, once training is well under way
    auto const coefficient = static_cast<Real>(per_row * s);
    for (std::size_t k = 0; k < row.indices.size(); ++k) {
      out[row.indices[k]] += coefficient * static_cast<Real>(row.values[k]);
    }
  }
}

template <row_loss Loss, std::floating_point Real>
void linear_model<Loss, Real>::expect_weights(data::dataset_view rows, std::span<Real const> w) {
  if (w.size() >= rows.features()) return;
  throw usage_error(errc::wrong_size, "linear_model: " + std::to_string(w.size()) +
                                          " weights, expected at least the data's " +
                                          std::to_string(rows.features()) + " features");
}

template <row_loss Loss, std::floating_point Real>
void linear_model<Loss, Real>::expect_output(std::span<Real const> w, std::span<Real> out) {
  if (out.size() == w.size()) return;
  throw usage_error(errc::wrong_size, "linear_model: a result of " + std::to_string(out.size()) +
                                          " numbers, expected as many as weights, " +
                                          std::to_string(w.size()));
}

}  // namespace rubato::model
