// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/QR>
#include <cstddef>
#include <span>
#include <vector>

#include "rubato/algorithm/impl/normal_equations.hpp"

namespace rubato::algorithm::detail {

normal_equations::normal_equations(std::size_t k, double regulariser) : k_(k), a_(k * k), b_(k) {
  for (std::size_t i = 0; i < k; ++i) a_[i * k + i] = regulariser;
}

void normal_equations::add(std::span<double const> y, double v) {
  for (std::size_t column = 0; column < k_; ++column) {
    double* const below = a_.data() + column * k_;
    for (std::size_t row = column; row < k_; ++row) below[row] += y[row] * y[column];
    b_[column] += v * y[column];
  }
}

/// By the lower half of a. Where λ is lost beside the sums, so that what rounding leaves would be taken for it: the
/// shortest x that fits best, which is what x tends to as λ goes to 0.
std::vector<double> normal_equations::solution() const {
  constexpr double lost = 1e-12;  // of a diagonal element, hundreds of times what rounding leaves
  auto const k = static_cast<Eigen::Index>(k_);
  Eigen::Map<Eigen::MatrixXd const> const a(a_.data(), k, k);
  Eigen::Map<Eigen::VectorXd const> const b(b_.data(), k);
  std::vector<double> solved(k_);
  Eigen::Map<Eigen::VectorXd> x(solved.data(), k);
  auto const symmetric = a.selfadjointView<Eigen::Lower>();
  Eigen::LLT<Eigen::MatrixXd> const regular = symmetric.llt();
  Eigen::ArrayXd const left = regular.matrixLLT().diagonal().array().square() / a.diagonal().array();
  bool const is_regular = regular.info() == Eigen::Success && (left > lost).all();
  // Factors that have overflown stay seen: a decomposition by rank would give zeros.
  if (is_regular || !a.diagonal().allFinite()) {
    x = regular.solve(b);
  } else {
    Eigen::CompleteOrthogonalDecomposition<Eigen::MatrixXd> by_rank;
    by_rank.setThreshold(lost);
    x = by_rank.compute(symmetric).solve(b);
  }
  return solved;
}

}  // namespace rubato::algorithm::detail
