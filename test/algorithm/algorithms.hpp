// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rubato/data/dataset.hpp>
#include <rubato/data/synthetic.hpp>
#include <rubato/model/linear.hpp>
#include <rubato/task/engine.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

namespace rubato::test {

using logistic = model::linear_model<model::logistic_loss, double>;
using svm = model::linear_model<model::hinge_loss, double>;

/// Rows in which few of the features occur, 7 in each.
inline data::dataset sparse_rows(std::size_t rows = 240, std::size_t features = 60) {
  return data::make_synthetic(
      {.rows = rows, .features = features, .nonzeros_per_row = 7, .label_noise = 0.1});
}

/// Rows in which all features occur.
inline data::dataset full_rows(std::size_t rows = 96) {
  return data::make_synthetic({.rows = rows, .features = 9, .nonzeros_per_row = 9, .label_noise = 0.1});
}

/// Where full gradient descent ends, by so many steps at this rate.
template <class Model>
std::vector<double> descended(Model const& m, data::dataset const& rows, double rate, int steps) {
  std::vector<double> w(rows.features()), delta(w.size());
  for (int i = 0; i < steps; ++i) {
    m.local_step(rows, rate, w, delta);
    for (std::size_t j = 0; j < w.size(); ++j) w[j] += delta[j];
  }
  return w;
}

/// Four workers in virtual time, and one more that joins each run.
inline simulated with_joiner() {
  simulated where{.workers = 4};
  where.scenario.joins = {{std::chrono::nanoseconds(1)}};
  return where;
}

/// The greatest difference between two vectors.
inline double apart(std::span<double const> a, std::span<double const> b) {
  double most = a.size() == b.size() ? 0 : 1e300;
  for (std::size_t j = 0; j < a.size() && j < b.size(); ++j) most = std::max(most, std::abs(a[j] - b[j]));
  return most;
}

}  // namespace rubato::test
