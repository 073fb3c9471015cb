// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/model/mlp.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/data/dataset.hpp>
#include <rubato/data/idx.hpp>
#include <rubato/data/synthetic_digits.hpp>

#include "../data/real_data.hpp"
#include "../seeds.hpp"

namespace rd = rubato::data;
namespace rm = rubato::model;

namespace {

/// Rows of three classes with some features missing, and none in the last.
rd::dataset few_rows(std::size_t rows = 12, std::size_t features = 7) {
  rubato::random_stream random(3);
  rd::dataset_builder builder(features);
  for (std::size_t i = 0; i < rows; ++i) {
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    for (std::uint32_t j = 0; j < features && i + 1 < rows; ++j) {
      if (!random.chance(0.5)) continue;
      indices.push_back(j);
      values.push_back(static_cast<float>(random.normal()));
    }
    builder.add(static_cast<float>(i % 3), indices, values);
  }
  return builder.build();
}

rd::dataset one_row(float label, std::vector<float> const& values) {
  std::vector<std::uint32_t> indices(values.size());
  for (std::uint32_t j = 0; j < indices.size(); ++j) indices[j] = j;
  rd::dataset_builder builder(values.size());
  builder.add(label, indices, values);
  return builder.build();
}

/// Biases, too, so that no unit sits on its kink.
template <class Real>
std::vector<Real> weights_off_kinks(rm::multilayer_perceptron<Real> const& net, std::uint64_t seed) {
  std::vector<Real> w = net.initial(seed);
  rubato::random_stream random(seed, 99);
  for (Real& x : w) x += static_cast<Real>(0.3 * random.normal());
  return w;
}

template <class Real>
void train(rm::multilayer_perceptron<Real> const& net, rd::dataset_view rows, int passes,
           double eta, std::vector<Real>& w) {
  std::vector<Real> delta(w.size());
  for (int pass = 0; pass < passes; ++pass) {
    for (rd::dataset_view const batch : rows.batches(32)) {
      net.local_step(batch, eta, w, delta);
      std::ranges::transform(w, delta, w.begin(), std::plus<>());
    }
  }
}

}  // namespace

TEST_CASE("a network has the weights and biases of all its layers", "[model]") {
  CHECK(rm::multilayer_perceptron<>({.inputs = 5}).parameters() == 5 * 32 + 32 + 32 * 10 + 10);
  rm::multilayer_perceptron<> const deep({.inputs = 4, .hidden = {3, 2}, .classes = 5});
  CHECK(deep.parameters() == 4 * 3 + 3 + 3 * 2 + 2 + 2 * 5 + 5);
  CHECK(deep.inputs() == 4);
  CHECK(deep.classes() == 5);
  CHECK(rm::multilayer_perceptron<>({.inputs = 4, .hidden = {}, .classes = 3}).parameters() == 15);
}

TEST_CASE("a tiny network, worked out by hand", "[model]") {
  rm::multilayer_perceptron<double> const net(
      {.inputs = 2, .hidden = {2}, .classes = 2, .l2 = 0.5});
  // Input 0 goes to the hidden units with 1 and -2, input 1 with 3 and 4; their biases are 0.5 and
  // -9. Unit 0 goes to the scores with 1 and -1, unit 1 with 7 and 8; biases 0 and 0.25.
  std::vector<double> const w{1, -2, 3, 4, 0.5, -9, 1, -1, 7, 8, 0, 0.25};
  rd::dataset const data = one_row(1, {2, 0.5F});
  // Hidden inputs: 2 + 1.5 + 0.5 = 4, and -4 + 2 - 9 = -11, which is silent. Scores 4 and -3.75.
  double norm2 = 0;
  for (double const x : w) norm2 += x * x;
  double const p0 = 1 / (1 + std::exp(-7.75)), p1 = 1 - p0;
  CHECK(net.objective(data, w) == Approx(-std::log(p1) + 0.25 * norm2).epsilon(1e-12));
  CHECK(net.accuracy(data, w) == 0);
  rd::dataset const other_class = one_row(0, {2, 0.5F});
  CHECK(net.accuracy(other_class, w) == 1);

  // Slopes of the scores: p0 and p1 - 1 = -p0; of unit 0's output: p0 * 1 - p0 * -1 = 2 p0.
  std::vector<double> const loss_gradient{4 * p0, 0,       p0, 0, 2 * p0, 0,
                                          4 * p0, -4 * p0, 0,  0, p0,     -p0};
  std::vector<double> gradient(w.size(), 77), delta(w.size(), 77);
  net.gradient(data, w, gradient);
  net.local_step(data, 0.1, w, delta);
  for (std::size_t i = 0; i < w.size(); ++i) {
    INFO(i);
    CHECK(gradient[i] == Approx(loss_gradient[i] + 0.5 * w[i]).epsilon(1e-9).margin(1e-12));
    CHECK(delta[i] == Approx(-0.1 * gradient[i]).epsilon(1e-12).margin(1e-15));
  }
}

TEST_CASE("the gradient of a network agrees with finite differences", "[model]") {
  rd::dataset const data = few_rows();
  auto const hidden = GENERATE(std::vector<std::size_t>{}, std::vector<std::size_t>{4},
                               std::vector<std::size_t>{6, 5}, std::vector<std::size_t>{3, 1, 4});
  double const l2 = GENERATE(0.0, 0.3);
  auto const seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{6}));
  rm::multilayer_perceptron<double> const net(
      {.inputs = data.features() + 1, .hidden = hidden, .classes = 3, .l2 = l2});
  std::vector<double> w = weights_off_kinks(net, seed), gradient(w.size());
  net.gradient(data, w, gradient);
  double const h = 1e-6;
  for (std::size_t j = 0; j < w.size(); ++j) {
    double const at = w[j];
    w[j] = at + h;
    double const above = net.objective(data, w);
    w[j] = at - h;
    double const below = net.objective(data, w);
    w[j] = at;
    REQUIRE(gradient[j] == Approx((above - below) / (2 * h)).margin(1e-7).epsilon(1e-6));
  }
}

TEST_CASE("a batch's gradient is the mean of its rows'", "[model]") {
  rd::dataset const data = few_rows();
  rm::multilayer_perceptron<double> const net({.inputs = 7, .hidden = {5, 4}, .classes = 3});
  auto const w = weights_off_kinks(net, 4);
  std::vector<double> whole(w.size()), one(w.size()), mean(w.size());
  net.gradient(data, w, whole);
  for (rd::dataset_view const row : data.rows().batches(1)) {
    net.gradient(row, w, one);
    for (std::size_t j = 0; j < w.size(); ++j) mean[j] += one[j] / double(data.size());
  }
  for (std::size_t j = 0; j < w.size(); ++j) CHECK(whole[j] == Approx(mean[j]).margin(1e-14));
}

TEST_CASE("a float network's gradient is the double one, rounded", "[model]") {
  rd::dataset const data = few_rows();
  rm::perceptron_options const shape{.inputs = 7, .hidden = {5}, .classes = 3, .l2 = 0.1};
  rm::multilayer_perceptron<float> const narrow(shape);
  rm::multilayer_perceptron<double> const wide(shape);
  auto const w = weights_off_kinks(narrow, 5);
  std::vector<double> const wide_w(w.begin(), w.end());
  std::vector<float> gradient(w.size());
  std::vector<double> expected(w.size());
  narrow.gradient(data, w, gradient);
  wide.gradient(data, wide_w, expected);
  CHECK(narrow.objective(data, w) == Approx(wide.objective(data, wide_w)).epsilon(1e-5));
  for (std::size_t j = 0; j < w.size(); ++j)
    CHECK(gradient[j] == Approx(expected[j]).epsilon(1e-4).margin(1e-6));
}

TEST_CASE("initial weights depend on the seed alone and are as wide as their layer asks",
          "[model]") {
  rm::multilayer_perceptron<float> const net({.inputs = 200, .hidden = {50}, .classes = 10});
  std::vector<float> const w = net.initial(1);
  CHECK(w == net.initial(1));
  CHECK(w != net.initial(2));
  auto const deviation = [&](std::size_t first, std::size_t count) {
    double sum = 0;
    for (std::size_t i = first; i < first + count; ++i) sum += double(w[i]) * double(w[i]);
    return std::sqrt(sum / double(count));
  };
  CHECK(deviation(0, 10'000) == Approx(0.1).epsilon(0.05));
  CHECK(deviation(10'000, 50) == 0);  // biases
  CHECK(deviation(10'050, 500) == Approx(0.2).epsilon(0.15));
  CHECK(w[0] != w[1]);
}

TEST_CASE("a network given no rows has no loss and takes no step", "[model]") {
  rd::dataset const data = few_rows();
  rd::dataset_view const none = data.rows().slice(0, 0);
  rm::multilayer_perceptron<double> const net({.inputs = 7, .hidden = {2}, .classes = 3, .l2 = 2});
  std::vector<double> const w(net.parameters(), 3);
  std::vector<double> out(w.size(), 9);
  CHECK(net.objective(none, w) == 9 * double(w.size()));
  CHECK(net.accuracy(none, w) == 0);
  net.gradient(none, w, out);
  CHECK(out == std::vector<double>(w.size(), 6));
  net.local_step(none, 0.5, w, out);
  CHECK(out == std::vector<double>(w.size()));
}

TEST_CASE("a network that cannot be meant is refused", "[model]") {
  using net = rm::multilayer_perceptron<float>;
  double const nan = std::numeric_limits<double>::quiet_NaN();
  for (rm::perceptron_options const& bad :
       {rm::perceptron_options{}, rm::perceptron_options{.inputs = 3, .hidden = {4, 0}},
        rm::perceptron_options{.inputs = 3, .classes = 1},
        rm::perceptron_options{.inputs = 3, .l2 = -1},
        rm::perceptron_options{.inputs = 3, .l2 = nan}}) {
    CHECK_THROWS_AS(net(bad), rubato::option_error);
  }
}

TEST_CASE("a label that is no class is named", "[model]") {
  rm::multilayer_perceptron<float> const net({.inputs = 2, .hidden = {2}, .classes = 3});
  auto const w = net.initial(1);
  std::vector<float> out(w.size());
  for (float const bad : {-1.0F, 3.0F, 0.5F, 1e30F}) {
    INFO(bad);
    rd::dataset const data = one_row(bad, {1, 1});
    CHECK_THROWS_AS(net.objective(data, w), rubato::data_error);
    CHECK_THROWS_AS(net.accuracy(data, w), rubato::data_error);
    CHECK_THROWS_AS(net.gradient(data, w, out), rubato::data_error);
    CHECK_THROWS_AS(net.local_step(data, 1, w, out), rubato::data_error);
  }
  rd::dataset const negative = one_row(-1, {1, 1});
  CHECK_THROWS_WITH(net.objective(negative, w),
                    Catch::Contains("label of -1") && Catch::Contains("0 to 2"));
}

TEST_CASE("sizes that do not fit a network are refused", "[model]") {
  rd::dataset const data = few_rows();
  rm::multilayer_perceptron<float> const net({.inputs = 7, .hidden = {2}, .classes = 3});
  auto const w = net.initial(1);
  std::vector<float> out(w.size());
  auto const short_w = std::span(w).first(w.size() - 1);
  CHECK_THROWS_AS(net.objective(data, short_w), rubato::usage_error);
  CHECK_THROWS_AS(net.accuracy(data, short_w), rubato::usage_error);
  CHECK_THROWS_AS(net.local_step(data, 1, short_w, out), rubato::usage_error);
  CHECK_THROWS_AS(net.local_step(data, 1, w, std::span(out).first(3)), rubato::usage_error);
  CHECK_THROWS_AS(net.gradient(data, w, std::span(out).first(3)), rubato::usage_error);
  rm::multilayer_perceptron<float> const narrow({.inputs = 6, .hidden = {2}, .classes = 3});
  try {
    (void)narrow.objective(data, narrow.initial(1));
    FAIL("it was accepted");
  } catch (rubato::usage_error const& e) {
    CHECK(e.code() == rubato::errc::wrong_size);
    CHECK_THAT(e.what(), Catch::Contains("7 features") && Catch::Contains("6"));
  }
}

TEST_CASE("large scores do not overflow, and a diverged network does not look well", "[model]") {
  rm::multilayer_perceptron<float> const net({.inputs = 1, .hidden = {1}, .classes = 2});
  rd::dataset const data = one_row(1, {1});
  std::vector<float> w{1e4F, 0, 1, -1, 0, 0};  // scores 1e4 and -1e4
  CHECK(net.objective(data, w) == Approx(2e4));
  w[0] = 1e38F;
  w[2] = 1e38F;
  CHECK_FALSE(std::isfinite(net.objective(data, w)));
  w[0] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(net.objective(data, w)));
}

TEST_CASE("a network learns synthetic digits, better than a linear model", "[model]") {
  if (rubato::test::sanitized()) {  // it takes a minute, and the next test case runs the same code
    WARN("not tested: training takes long under a sanitizer");
    return;
  }
  auto const [training, test] = rd::make_synthetic_digits().split(0.2, 1);
  rm::multilayer_perceptron<float> const net({.inputs = training.features(), .hidden = {32}});
  std::vector<float> w = net.initial(1);
  double const start = net.objective(training, w);
  CHECK(start < 3.5);
  train(net, training, 20, 0.5, w);
  rm::multilayer_perceptron<float> const linear({.inputs = training.features(), .hidden = {}});
  std::vector<float> linear_w(linear.parameters());
  train(linear, training, 20, 0.5, linear_w);
  INFO("start " << start << ", reached " << net.objective(training, w) << ", accuracy "
                << net.accuracy(test, w) << ", linear " << linear.accuracy(test, linear_w));
  CHECK(net.objective(training, w) < 0.1 * start);
  CHECK(net.accuracy(test, w) > 0.8);
  CHECK(net.accuracy(test, w) > linear.accuracy(test, linear_w) + 0.08);
}

TEST_CASE("training a network twice gives the same bits, wherever memory lies", "[model]") {
  rd::dataset const data = rd::make_synthetic_digits({.rows = 300});
  rm::multilayer_perceptron<float> const net({.inputs = data.features(), .hidden = {17, 9}});
  auto const run = [&](std::size_t offset) {
    // Results must not depend on how memory is aligned.
    std::vector<float> w_memory(net.parameters() + 8), delta_memory(net.parameters() + 8);
    auto const w = std::span(w_memory).subspan(offset, net.parameters());
    auto const delta = std::span(delta_memory).subspan(offset, net.parameters());
    std::ranges::copy(net.initial(7), w.begin());
    for (rd::dataset_view const batch : data.rows().batches(32)) {
      net.local_step(batch, 0.1, w, delta);
      std::ranges::transform(w, delta, w.begin(), std::plus<>());
    }
    return std::vector<float>(w.begin(), w.end());
  };
  std::vector<float> const expected = run(0);
  for (std::size_t offset = 1; offset < 8; ++offset) CHECK(run(offset) == expected);
}

TEST_CASE("a network learns MNIST", "[model][real][numeric]") {
  auto const images = rubato_test::real_data("t10k-images-idx3-ubyte.gz");
  auto const labels = rubato_test::real_data("t10k-labels-idx1-ubyte.gz");
  if (!images || !labels) return;
  auto const [training, test] = rd::read_idx_images(*images, *labels, {.pool = 2}).split(0.2, 1);
  rm::multilayer_perceptron<float> const net({.inputs = training.features(), .hidden = {32}});
  std::vector<float> w = net.initial(1);
  train(net, training, 5, 0.2, w);
  CHECK(net.accuracy(test, w) > 0.9);
}
