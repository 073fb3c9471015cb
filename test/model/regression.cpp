// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Linear models for regression; what they share with the classifiers is tested in linear.cpp.
#include <rubato/model/linear.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/data/dataset.hpp>
#include <rubato/data/synthetic_chiller.hpp>

namespace rd = rubato::data;
namespace rm = rubato::model;

namespace {

/// Labels are any numbers, and depend on the features to a part.
rd::dataset regression_rows(std::size_t rows, std::size_t features) {
  rubato::random_stream random(5);
  rd::dataset_builder builder(features);
  for (std::size_t i = 0; i < rows; ++i) {
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    double label = random.normal();
    for (std::uint32_t j = 0; j < features; ++j) {
      if (random.chance(0.5)) continue;
      indices.push_back(j);
      values.push_back(static_cast<float>(random.normal()));
      label += double(values.back()) * double(j);
    }
    builder.add(static_cast<float>(label), indices, values);
  }
  return builder.build();
}

template <class Real>
std::vector<Real> random_weights(std::size_t size, std::uint64_t seed) {
  rubato::random_stream random(seed);
  std::vector<Real> w(size);
  for (Real& x : w) x = static_cast<Real>(2 * random.normal());
  return w;
}

bool near_a_kink(rd::dataset_view rows, std::vector<double> const& w, double epsilon) {
  return std::ranges::any_of(rows, [&](rd::example row) {
    double residual = -double(row.label);
    for (std::size_t k = 0; k < row.indices.size(); ++k)
      residual += w[row.indices[k]] * double(row.values[k]);
    return std::abs(std::abs(residual) - epsilon) < 1e-3;
  });
}

}  // namespace

TEST_CASE("the regression's objective, accuracy and step, worked out by hand", "[model]") {
  rd::dataset_builder builder(2);
  builder.add(3, std::vector<std::uint32_t>{0, 1}, std::vector<float>{1, 2});
  builder.add(-1, std::vector<std::uint32_t>{0}, std::vector<float>{4});
  builder.add(1, {}, {});
  rd::dataset const data = builder.build();
  rm::support_vector_regression<double> const model{.l2 = 0.5, .loss = {.epsilon = 0.25}};
  std::vector<double> const w{1, 0.9};
  // Scores 2.8, 4 and 0; residuals -0.2 (free), 5 and -1.
  CHECK(model.objective(data, w) == Approx((4.75 + 0.75) / 3 + 0.25 * 1.81));
  // Labels have the mean 1 and deviations 2, -2 and 0.
  CHECK(model.accuracy(data, w) == Approx(1 - (0.04 + 25 + 1) / 8));
  std::vector<double> out(2);
  model.gradient(data, w, out);
  CHECK(out[0] == Approx(4.0 / 3 + 0.5));
  CHECK(out[1] == Approx(0.45));
  model.local_step(data, 0.1, w, out);
  CHECK(out[0] == Approx(-0.1 * (4.0 / 3 + 0.5)));
  CHECK(out[1] == Approx(-0.045));
}

TEST_CASE("the regression's subgradient agrees with finite differences", "[model]") {
  rd::dataset const data = regression_rows(60, 12);
  double const l2 = GENERATE(0.0, 0.3);
  double const epsilon = GENERATE(0.0, 0.1, 5.0);
  auto const seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{5}));
  auto w = random_weights<double>(data.features(), seed);
  rm::support_vector_regression<double> const model{.l2 = l2, .loss = {.epsilon = epsilon}};
  if (near_a_kink(data, w, epsilon)) return;
  std::vector<double> gradient(w.size());
  model.gradient(data, w, gradient);
  double const h = 1e-6;
  for (std::size_t j = 0; j < w.size(); ++j) {
    double const at = w[j];
    w[j] = at + h;
    double const above = model.objective(data, w);
    w[j] = at - h;
    double const below = model.objective(data, w);
    w[j] = at;
    REQUIRE(gradient[j] == Approx((above - below) / (2 * h)).margin(1e-7).epsilon(1e-6));
  }
}

TEST_CASE("the regression's sparse step is the dense one", "[model]") {
  rd::dataset const data = regression_rows(5, 40);
  rm::support_vector_regression<float> const model;
  auto const w = random_weights<float>(data.features(), 3);
  std::vector<float> dense(w.size());
  model.local_step(data, 0.7, w, dense);
  rm::sparse_vector<float> sparse;
  model.sparse_step(data, 0.7, w, sparse);
  for (std::size_t j = 0; j < sparse.keys.size(); ++j)
    CHECK(sparse.values[j] == dense[sparse.keys[j].index()]);
}

TEST_CASE("without rows, and where all labels are equal, no variance is explained", "[model]") {
  rm::support_vector_regression<float> const model;
  rd::dataset const data = regression_rows(3, 4);
  std::vector<float> const w(4);
  CHECK(model.accuracy(data.rows().slice(0, 0), w) == 0);
  rd::dataset_builder builder(4);
  for (int i = 0; i < 3; ++i) builder.add(2, {}, {});
  rd::dataset const equal = builder.build();
  CHECK(model.accuracy(equal, w) == 0);
}

TEST_CASE("the regression learns what makes a chiller efficient", "[model]") {
  auto const [train, test] = rd::make_synthetic_chiller().split(0.2, 1);
  rm::support_vector_regression<float> const model{.l2 = 1e-4, .loss = {.epsilon = 0.1}};
  std::vector<float> w(train.features()), delta(train.features());
  double const start = model.objective(train, w);
  CHECK(model.accuracy(test, w) < 0);
  for (int pass = 0; pass < 30; ++pass) {
    for (rd::dataset_view const batch : train.rows().batches(rd::fraction{0.01})) {
      model.local_step(batch, 0.3 / std::sqrt(1.0 + pass), w, delta);
      std::ranges::transform(w, delta, w.begin(), std::plus<>());
    }
  }
  INFO("start " << start << ", reached " << model.objective(train, w) << ", R^2 "
                << model.accuracy(test, w));
  CHECK(model.objective(train, w) < 0.05 * start);
  CHECK(model.accuracy(test, w) > 0.8);
  CHECK(model.accuracy(test, w) < 0.99);
}
