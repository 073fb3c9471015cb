// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/convex_problem.hpp"

#include <numeric>
#include <string>

#include <Eigen/Core>
#include <Eigen/QR>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"

namespace rubato::bench {
namespace {

std::vector<double> unit_vector(std::size_t size, random_stream& random) {
  for (;;) {
    std::vector<double> v(size);
    for (double& x : v) x = random.normal();
    double const length = std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
    if (length == 0) continue;
    for (double& x : v) x /= length;
    return v;
  }
}

}  // namespace

convex_problem::convex_problem(shape const& s, std::uint64_t seed) : features_(s.features) {
  if (s.rows == 0 || s.features == 0) throw option_error("convex_problem: expected rows and features, at least 1");
  if (!(s.noise >= 0) || !std::isfinite(s.noise))
    throw option_error("convex_problem: noise must be finite and 0 or more, but is " + std::to_string(s.noise));
  random_stream random(seed);
  std::vector<double> const truth = unit_vector(features_, random);
  rows_.reserve(s.rows * features_);
  for (std::size_t i = 0; i < s.rows; ++i) {
    std::vector<double> const a = unit_vector(features_, random);
    rows_.insert(rows_.end(), a.begin(), a.end());
    labels_.push_back(std::inner_product(a.begin(), a.end(), truth.begin(), s.noise * random.normal()));
  }
}

double convex_problem::residual(std::size_t i, std::span<double const> x) const noexcept {
  auto const a = row(i);
  return std::inner_product(a.begin(), a.end(), x.begin(), -labels_[i]);
}

double convex_problem::value(std::size_t i, std::span<double const> x) const noexcept {
  return loss_.value(residual(i, x));
}

double convex_problem::slope(std::size_t i, std::span<double const> x) const noexcept {
  return loss_.slope(residual(i, x));
}

minimum convex_problem::minimize(std::size_t count) const {
  if (count == 0 || count > size())
    throw option_error("convex_problem: " + std::to_string(count) + " components, expected 1 to " +
                       std::to_string(size()));
  constexpr int steps_most = 10'000;
  constexpr double good = 1e-12;
  auto const rows = static_cast<Eigen::Index>(count);
  auto const columns = static_cast<Eigen::Index>(features_);
  using matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<matrix const> const a(rows_.data(), rows, columns);
  Eigen::Map<Eigen::VectorXd const> const b(labels_.data(), rows);
  auto const n = static_cast<double>(count);
  double const delta = loss_.delta;
  Eigen::VectorXd x = Eigen::VectorXd::Zero(columns);
  for (int step = 0; step < steps_most; ++step) {
    Eigen::VectorXd const r = a * x - b;
    Eigen::VectorXd const lengths = (r.array().square() + delta * delta).sqrt();
    Eigen::VectorXd const gradient = a.transpose() * r.cwiseQuotient(lengths) / n;
    if (gradient.norm() <= good) return {{x.data(), x.data() + columns}, lengths.mean() - delta, gradient.norm()};
    // The parabola that touches the loss at r and is nowhere below it has the curvature 1 / sqrt(delta² + r²).
    matrix const curvature = a.transpose() * lengths.cwiseInverse().asDiagonal() * a / n;
    x -= curvature.completeOrthogonalDecomposition().solve(gradient);
  }
  throw data_error("convex_problem: no minimum found in " + std::to_string(steps_most) + " steps");
}

}  // namespace rubato::bench
