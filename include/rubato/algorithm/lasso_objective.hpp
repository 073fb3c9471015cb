// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "rubato/data/view.hpp"

/// The Lasso: w that minimizes F(w) = 1/(2n) |y − Xw|² + λ |w|₁ for n rows x_i with labels y_i.
namespace rubato::algorithm {

/// y − Xw. @pre `w` has a number for each feature. Cost: O(stored values)
template <std::floating_point Real>
[[nodiscard]] std::vector<Real> lasso_residual(data::dataset_view rows, std::span<Real const> w) {
  std::vector<Real> residual;
  residual.reserve(rows.size());
  for (data::example const row : rows) {
    double r = static_cast<double>(row.label);
    for (std::size_t k = 0; k < row.indices.size(); ++k)
      r -= static_cast<double>(row.values[k]) * static_cast<double>(w[row.indices[k]]);
    residual.push_back(static_cast<Real>(r));
  }
  return residual;
}

/// F, from what the two tables hold: without the data, and off by what the residual has drifted.
/// @pre a residual for each row, of which there is at least one
template <std::floating_point Real>
[[nodiscard]] double lasso_objective(std::span<Real const> residual, std::span<Real const> w, double lambda) {
  double squares = 0, norm = 0;
  for (Real const r : residual) squares += static_cast<double>(r) * static_cast<double>(r);
  for (Real const x : w) norm += std::abs(static_cast<double>(x));
  return squares / (2 * static_cast<double>(residual.size())) + lambda * norm;
}

/// F. @pre there are rows, and `w` has a number for each feature
template <std::floating_point Real>
[[nodiscard]] double lasso_objective(data::dataset_view rows, std::span<Real const> w, double lambda) {
  return lasso_objective(std::span<Real const>(lasso_residual(rows, w)), w, lambda);
}

}  // namespace rubato::algorithm
