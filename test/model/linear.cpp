// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/model/linear.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/data/dataset.hpp>
#include <rubato/data/libsvm.hpp>
#include <rubato/data/synthetic.hpp>

#include "../data/real_data.hpp"

namespace rd = rubato::data;
namespace rm = rubato::model;

namespace {

rd::dataset toy() {
  rd::dataset_builder builder(4);
  builder.add(1, std::vector<std::uint32_t>{0, 2}, std::vector<float>{1, 2});
  builder.add(-1, std::vector<std::uint32_t>{1, 2}, std::vector<float>{3, 1});
  builder.add(-1, {}, {});
  return builder.build();
}

template <class Real>
std::vector<Real> normal_weights(std::size_t size, std::uint64_t seed, double scale = 1) {
  rubato::random_stream random(seed);
  std::vector<Real> w(size);
  for (Real& x : w) x = static_cast<Real>(scale * random.normal());
  return w;
}

/// The hinge has no gradient at margin 1: finite differences are meaningless across it.
bool near_the_hinge(rd::dataset_view rows, std::vector<double> const& w) {
  return std::ranges::any_of(rows, [&](rd::example row) {
    double score = 0;
    for (std::size_t k = 0; k < row.indices.size(); ++k) {
      score += w[row.indices[k]] * double(row.values[k]);
    }
    return std::abs(row.label * score - 1) < 1e-3;
  });
}

template <class Model>
void check_gradient(Model const& model, rd::dataset_view rows, std::vector<double> w) {
  std::vector<double> gradient(w.size());
  model.gradient(rows, w, gradient);
  double const h = 1e-5;
  for (std::size_t j = 0; j < w.size(); ++j) {
    double const at = w[j];
    w[j] = at + h;
    double const above = model.objective(rows, w);
    w[j] = at - h;
    double const below = model.objective(rows, w);
    w[j] = at;
    REQUIRE(gradient[j] == Approx((above - below) / (2 * h)).margin(1e-8).epsilon(1e-6));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("the objective is the mean loss and the regulariser", "[model]", float, double) {
  rd::dataset const data = toy();
  std::vector<TestType> const w{1, -1, TestType(0.5), 2};
  // Margins: 1 * (1 + 1) = 2, -1 * (-3 + 0.5) = 2.5, 0.  |w|^2 = 6.25.
  double const log_losses = std::log1p(std::exp(-2.0)) + std::log1p(std::exp(-2.5)) + std::log(2.0);
  rm::logistic_regression<TestType> const lr{.l2 = 0.1};
  CHECK(lr.objective(data, w) == Approx(log_losses / 3 + 0.05 * 6.25).epsilon(1e-12));
  rm::support_vector_machine<TestType> const svm{.l2 = 0.1};
  CHECK(svm.objective(data, w) == Approx(1.0 / 3 + 0.05 * 6.25).epsilon(1e-12));
}

TEST_CASE("the objective is accumulated in double", "[model]") {
  // In float the sum would stop growing at 2^24 terms of this size, and lose digits long before.
  rd::dataset_builder builder(1);
  for (int i = 0; i < 200'000; ++i) builder.add(1, {}, {});
  rd::dataset const data = builder.build();
  std::vector<float> const w(1'000'000, 0.1F);
  rm::logistic_regression<float> const model{.l2 = 2};
  double const x = double(0.1F);
  CHECK(model.objective(data, w) == Approx(std::log(2.0) + 1e6 * x * x).epsilon(1e-10));
}

TEST_CASE("accuracy counts right signs, a score of zero being negative", "[model]") {
  rd::dataset const data = toy();
  rm::logistic_regression<float> const model;
  CHECK(model.accuracy(data, std::vector<float>{1, -1, 0.5F, 0}) == 1);
  CHECK(model.accuracy(data, std::vector<float>{1, 1, 0.5F, 0}) == Approx(2.0 / 3));
  CHECK(model.accuracy(data, std::vector<float>{0, 0, 0, 0}) == Approx(2.0 / 3));
}

TEST_CASE("gradients agree with finite differences", "[model]") {
  rd::dataset const data = rd::make_synthetic({.rows = 60, .features = 25, .nonzeros_per_row = 6});
  double const l2 = GENERATE(0.0, 0.3);
  auto const seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{9}));
  auto const w = normal_weights<double>(data.features(), seed, 2);
  check_gradient(rm::logistic_regression<double>{.l2 = l2}, data, w);
  REQUIRE_FALSE(near_the_hinge(data, w));
  check_gradient(rm::support_vector_machine<double>{.l2 = l2}, data, w);
}

TEST_CASE("float gradients are the double ones, rounded", "[model]") {
  rd::dataset const data = rd::make_synthetic({.rows = 60, .features = 25, .nonzeros_per_row = 6});
  auto const w = normal_weights<float>(data.features(), 5);
  std::vector<double> const wide(w.begin(), w.end());
  std::vector<float> gradient(w.size());
  std::vector<double> expected(w.size());
  rm::logistic_regression<float>{.l2 = 0.1}.gradient(data, w, gradient);
  rm::logistic_regression<double>{.l2 = 0.1}.gradient(data, wide, expected);
  for (std::size_t j = 0; j < w.size(); ++j) {
    CHECK(gradient[j] == Approx(expected[j]).epsilon(1e-5).margin(1e-6));
  }
}

TEMPLATE_TEST_CASE("a local step is the gradient times -eta, whatever delta was", "[model]",
                   rm::logistic_loss, rm::hinge_loss) {
  rd::dataset const data = rd::make_synthetic({.rows = 60, .features = 25, .nonzeros_per_row = 6});
  rm::linear_model<TestType, double> const model{.l2 = 0.2};
  auto const w = normal_weights<double>(data.features(), 3);
  for (rd::dataset_view const batch : data.shard(1, 2).batches(rd::fraction{0.25})) {
    std::vector<double> gradient(w.size(), 77);
    std::vector<double> delta(w.size(), std::numeric_limits<double>::quiet_NaN());
    model.gradient(batch, w, gradient);
    model.local_step(batch, 0.7, w, delta);
    for (std::size_t j = 0; j < w.size(); ++j) {
      REQUIRE(delta[j] == Approx(-0.7 * gradient[j]).epsilon(1e-12).margin(1e-15));
    }
  }
}

TEMPLATE_TEST_CASE("a sparse step is the dense one on the touched coordinates", "[model]",
                   rm::logistic_loss, rm::hinge_loss) {
  rd::dataset const data = rd::make_synthetic({.rows = 12, .features = 400, .nonzeros_per_row = 9});
  rm::linear_model<TestType, float> const model{.l2 = 0.2};
  auto const w = normal_weights<float>(data.features(), 3);
  std::vector<float> dense(w.size());
  model.local_step(data, 0.7, w, dense);
  std::vector<bool> touched(w.size());
  for (rd::example const row : data.rows()) {
    for (std::uint32_t const index : row.indices) touched[index] = true;
  }
  rm::sparse_vector<float> sparse{{rubato::key{9}}, {1, 2, 3}};
  model.sparse_step(data, 0.7, w, sparse);
  REQUIRE(sparse.keys.size() == std::size_t(std::ranges::count(touched, true)));
  REQUIRE(sparse.values.size() == sparse.keys.size());
  REQUIRE(sparse.keys.size() < w.size());
  CHECK(std::ranges::is_sorted(sparse.keys));
  for (std::size_t j = 0; j < sparse.keys.size(); ++j) {
    REQUIRE(touched[sparse.keys[j].index()]);
    REQUIRE(sparse.values[j] == dense[sparse.keys[j].index()]);
  }

  SECTION("and the same numbers come from a compact batch and the pulled weights alone") {
    rd::compact_batch const local = rd::compact(data);
    std::vector<float> pulled;
    for (rubato::key const k : local.keys) pulled.push_back(w[k.index()]);
    std::vector<float> delta(pulled.size());
    model.local_step(local.rows, 0.7, pulled, delta);
    CHECK(local.keys == sparse.keys);
    CHECK(delta == sparse.values);
  }
}

TEST_CASE("no rows: no loss, no step", "[model]") {
  rd::dataset const data = toy();
  rd::dataset_view const none = data.shard(3, 4);
  REQUIRE(none.empty());
  rm::logistic_regression<double> const model{.l2 = 2};
  std::vector<double> const w{1, 2, 3, 4};
  std::vector<double> out(4, 9);
  CHECK(model.objective(none, w) == 30);
  CHECK(model.accuracy(none, w) == 0);
  model.gradient(none, w, out);
  CHECK(out == std::vector<double>{2, 4, 6, 8});
  model.local_step(none, 0.5, w, out);
  CHECK(out == std::vector<double>(4));
  rm::sparse_vector<double> sparse{{rubato::key{1}}, {1}};
  model.sparse_step(none, 0.5, w, sparse);
  CHECK((sparse.keys.empty() && sparse.values.empty()));
}

TEST_CASE("sizes that do not fit are refused", "[model]") {
  rd::dataset const data = toy();
  rm::logistic_regression<float> const model;
  std::vector<float> const w(4);
  std::vector<float> out(4);
  rm::sparse_vector<float> sparse;
  CHECK_THROWS_MATCHES(
      model.objective(data, std::vector<float>(3)), rubato::usage_error,
      Catch::Message("linear_model: 3 weights, expected at least the data's 4 features"));
  CHECK_THROWS_AS(model.accuracy(data, std::vector<float>(3)), rubato::usage_error);
  CHECK_THROWS_AS(model.sparse_step(data, 1, std::vector<float>(3), sparse), rubato::usage_error);
  CHECK_THROWS_AS(model.gradient(data, w, std::span(out).first(3)), rubato::usage_error);
  CHECK_THROWS_AS(model.local_step(data, 1, w, std::span(out).first(3)), rubato::usage_error);
  try {
    model.local_step(data, 1, std::vector<float>(2), out);
    FAIL("it was accepted");
  } catch (rubato::usage_error const& e) {
    CHECK(e.code() == rubato::errc::wrong_size);
  }
  CHECK(model.objective(data, std::vector<float>(9)) == Approx(std::log(2.0)));
}

TEST_CASE("a regulariser of no weight that can be meant is refused", "[model]") {
  rd::dataset const data = toy();
  std::vector<float> const w(data.features());
  std::vector<float> out(w.size());
  auto const l2 = GENERATE(-1e-3, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN());
  rm::logistic_regression<float> const model{.l2 = l2};
  auto const refusal = Catch::Message("linear_model: l2 must be finite and at least 0");
  CHECK_THROWS_MATCHES(model.check(), rubato::option_error, refusal);
  CHECK_THROWS_MATCHES(model.objective(data, w), rubato::option_error, refusal);
  CHECK_THROWS_MATCHES(model.gradient(data, w, out), rubato::option_error, refusal);
  CHECK_THROWS_MATCHES(model.local_step(data, 1, w, out), rubato::option_error, refusal);
}

TEMPLATE_TEST_CASE("plain gradient descent converges", "[model][numeric]", rm::logistic_loss,
                   rm::hinge_loss) {
  rd::dataset const data =
      rd::make_synthetic({.rows = 1000, .features = 200, .nonzeros_per_row = 15});
  rm::linear_model<TestType, double> const model{.l2 = 0.004};
  std::vector<double> w(data.features());
  std::vector<double> delta(data.features());
  double const start = model.objective(data, w);
  bool const smooth = std::same_as<TestType, rm::logistic_loss>;  // else the rate has to decay
  for (int step = 0; step < 3000; ++step) {
    model.local_step(data, smooth ? 2 : 2 / std::sqrt(1 + 0.2 * step), w, delta);
    std::ranges::transform(w, delta, w.begin(), std::plus<>());
  }
  double const reached = model.objective(data, w);
  CHECK(reached < 0.85 * start);
  // A convex objective is at its minimum when no direction leads down any more.
  for (int direction = 0; direction < 50; ++direction) {
    auto const d = normal_weights<double>(w.size(), static_cast<std::uint64_t>(direction), 0.05);
    std::vector<double> other(w.size());
    std::ranges::transform(w, d, other.begin(), std::plus<>());
    REQUIRE(model.objective(data, other) > reached);
  }
  if constexpr (std::same_as<TestType, rm::logistic_loss>) {
    model.gradient(data, w, delta);
    CHECK(std::sqrt(std::inner_product(delta.begin(), delta.end(), delta.begin(), 0.0)) < 1e-8);
  }
}

TEST_CASE("logistic regression learns synthetic data and generalises", "[model][numeric]") {
  auto const options = GENERATE(
      rd::synthetic_options{}, rd::synthetic_options{.rows = 5000, .features = 5000, .seed = 3},
      rd::synthetic_options::url_like(0.001), rd::synthetic_options::ctr_like(0.00005));
  auto const [train, test] = rd::make_synthetic(options).split(0.2, 1);
  rm::logistic_regression<float> const model{.l2 = 1e-4};
  std::vector<float> w(train.features());
  std::vector<float> delta(train.features());
  for (int pass = 0; pass < 30; ++pass) {
    for (rd::dataset_view const batch : train.rows().batches(rd::fraction{0.05})) {
      model.local_step(batch, 8, w, delta);
      std::ranges::transform(w, delta, w.begin(), std::plus<>());
    }
  }
  // What the best constant guess would cost.
  double const p = double(std::ranges::count(train.labels(), 1.0F)) / double(train.size());
  double const ignorant = -p * std::log(p) - (1 - p) * std::log(1 - p);
  INFO("ignorant " << ignorant << ", accuracy " << model.accuracy(test, w));
  CHECK(model.objective(train, w) < 0.8 * ignorant);
  CHECK(model.objective(train, w) < 0.8 * std::log(2.0));
  CHECK(model.objective(test, w) < 0.95 * ignorant);
  CHECK(model.accuracy(test, w) >= std::max(p, 1 - p) - 0.01);
}

TEST_CASE("a9a reaches the known objective and held-out accuracy", "[model][real]") {
  auto const train_path = rubato_test::real_data("a9a");
  auto const test_path = rubato_test::real_data("a9a.t");
  if (!train_path || !test_path) return;
  rd::dataset const train = rd::read_libsvm(*train_path).shuffled(1);
  rd::dataset const test = rd::read_libsvm(*test_path, {.features = train.features()});
  rm::logistic_regression<float> const model;
  std::vector<float> w(train.features());
  std::vector<float> delta(train.features());
  for (int pass = 0; pass < 40; ++pass) {
    for (rd::dataset_view const batch : train.rows().batches(rd::fraction{0.1})) {
      model.local_step(batch, 0.5, w, delta);
      std::ranges::transform(w, delta, w.begin(), std::plus<>());
    }
  }
  CHECK(model.objective(train, w) < 0.33);
  CHECK(model.accuracy(test, w) > 0.845);
}
