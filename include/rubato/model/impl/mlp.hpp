// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/model/mlp.hpp>

namespace rubato::model {

namespace detail {

/// log of the sum of the scores' exponentials, of which none overflows.
template <std::floating_point Real>
[[nodiscard]] double log_sum_exp(std::span<Real const> scores) {
  auto const most = static_cast<double>(*std::ranges::max_element(scores));
  double sum = 0;
  for (Real const s : scores) sum += std::exp(static_cast<double>(s) - most);
  return most + std::log(sum);
}

}  // namespace detail

// ---- making one

template <std::floating_point Real>
multilayer_perceptron<Real>::multilayer_perceptron(perceptron_options const& options)
    : l2_(options.l2) {
  auto const require = [](bool ok, char const* sentence) {
    if (!ok) throw option_error(std::string("multilayer_perceptron: ") + sentence);
  };
  require(options.inputs >= 1, "no inputs, expected as many as the data has features");
  require(options.classes >= 2, "fewer than 2 classes, expected 2 or more");
  require(std::isfinite(options.l2) && options.l2 >= 0, "l2 must be a finite number of 0 or more");
  std::size_t inputs = options.inputs;
  for (std::size_t const outputs : options.hidden) {
    require(outputs >= 1, "a hidden layer without units, expected 1 or more");
    add_layer(inputs, outputs);
    inputs = outputs;
  }
  add_layer(inputs, options.classes);
}

template <std::floating_point Real>
void multilayer_perceptron<Real>::add_layer(std::size_t inputs, std::size_t outputs) {
  std::size_t const weights = parameters_;
  std::size_t const biases = weights + inputs * outputs;
  layers_.push_back({inputs, outputs, weights, biases, units_});
  parameters_ = biases + outputs;
  units_ += outputs;
}

template <std::floating_point Real>
std::vector<Real> multilayer_perceptron<Real>::initial(std::uint64_t seed) const {
  std::vector<Real> w(parameters_);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    layer const& at = layers_[l];
    random_stream random(seed, l);
    double const deviation = std::sqrt(2 / static_cast<double>(at.inputs));
    for (std::size_t i = at.weights; i < at.biases; ++i) {
      w[i] = static_cast<Real>(deviation * random.normal());
    }
  }
  return w;
}

// ---- using it

template <std::floating_point Real>
double multilayer_perceptron<Real>::objective(data::dataset_view rows,
                                              std::span<Real const> w) const {
  expect_sizes(rows, w);
  std::vector<Real> outputs(units_);
  double cost = 0;
  for (data::example const row : rows) {
    std::size_t const label = class_of(row);
    forward(row, w, outputs);
    std::span<Real const> const s = scores(outputs);
    cost += detail::log_sum_exp(s) - static_cast<double>(s[label]);
  }
  double norm2 = 0;
  for (Real const x : w) norm2 += static_cast<double>(x) * static_cast<double>(x);
  double const mean = rows.empty() ? 0 : cost / static_cast<double>(rows.size());
  return mean + l2_ / 2 * norm2;
}

template <std::floating_point Real>
double multilayer_perceptron<Real>::accuracy(data::dataset_view rows,
                                             std::span<Real const> w) const {
  expect_sizes(rows, w);
  if (rows.empty()) return 0;
  std::vector<Real> outputs(units_);
  std::size_t right = 0;
  for (data::example const row : rows) {
    forward(row, w, outputs);
    auto const s = scores(outputs);
    auto const guess = static_cast<std::size_t>(std::ranges::max_element(s) - s.begin());
    if (guess == class_of(row)) ++right;
  }
  return static_cast<double>(right) / static_cast<double>(rows.size());
}

template <std::floating_point Real>
void multilayer_perceptron<Real>::gradient(data::dataset_view batch, std::span<Real const> w,
                                           std::span<Real> gradient) const {
  expect_sizes(batch, w);
  expect_output(gradient);
  write_scaled_gradient(batch, 1, w, gradient);
}

template <std::floating_point Real>
void multilayer_perceptron<Real>::local_step(data::dataset_view batch, double eta,
                                             std::span<Real const> w, std::span<Real> delta) const {
  expect_sizes(batch, w);
  expect_output(delta);
  if (batch.empty()) {
    std::ranges::fill(delta, Real{0});
  } else {
    write_scaled_gradient(batch, -eta, w, delta);
  }
}

// ---- how it works

template <std::floating_point Real>
void multilayer_perceptron<Real>::write_scaled_gradient(data::dataset_view batch, double factor,
                                                        std::span<Real const> w,
                                                        std::span<Real> out) const {
  auto const shrink = static_cast<Real>(factor * l2_);
  std::ranges::transform(w, out.begin(), [=](Real x) { return shrink * x; });
  std::vector<Real> outputs(units_), slopes(units_);
  double const per_row = factor / static_cast<double>(batch.size());
  for (data::example const row : batch) {
    std::size_t const label = class_of(row);
    forward(row, w, outputs);
    // The loss's slope in a score: the probability of the class, less 1 for the right one. The
    // factor goes in here, and the rest is linear.
    std::span<Real> const s = scores(outputs), slope = scores(slopes);
    double const all = detail::log_sum_exp(std::span<Real const>(s));
    for (std::size_t c = 0; c < s.size(); ++c) {
      double const wanted = c == label ? 1 : 0;
      slope[c] = static_cast<Real>(per_row * (std::exp(static_cast<double>(s[c]) - all) - wanted));
    }
    backward(row, w, outputs, slopes, out);
  }
}

/// Fills in what each unit puts out; those of the last layer are the scores of the classes.
template <std::floating_point Real>
void multilayer_perceptron<Real>::forward(data::example const& row, std::span<Real const> w,
                                          std::span<Real> outputs) const {
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    auto const columns = weights(layers_[l], w);
    auto out = units(layers_[l], outputs);
    out = biases(layers_[l], w);
    if (l == 0) {
      for (std::size_t k = 0; k < row.indices.size(); ++k) {
        out += static_cast<Real>(row.values[k]) * columns.col(row.indices[k]);
      }
    } else {
      auto const in = units(layers_[l - 1], outputs);
      for (Eigen::Index i = 0; i < in.size(); ++i) {
        if (in[i] != 0) out += in[i] * columns.col(i);
      }
    }
    if (l + 1 == layers_.size()) return;
    // No max(): a NaN has to stay one, for a run that has diverged must not look well.
    for (Real& x : out) x = x < 0 ? Real{0} : x;
  }
}

/// Adds a row's part of the gradient, given what its units put out and the slopes of the scores.
template <std::floating_point Real>
void multilayer_perceptron<Real>::backward(data::example const& row, std::span<Real const> w,
                                           std::span<Real> outputs, std::span<Real> slopes,
                                           std::span<Real> out) const {
  for (std::size_t l = layers_.size(); l-- > 0;) {
    auto const slope = units(layers_[l], slopes);
    auto columns = weights(layers_[l], out);
    biases(layers_[l], out) += slope;
    if (l == 0) {
      for (std::size_t k = 0; k < row.indices.size(); ++k) {
        columns.col(row.indices[k]) += static_cast<Real>(row.values[k]) * slope;
      }
      return;
    }
    auto const leaving = weights(layers_[l], w);
    auto const in = units(layers_[l - 1], outputs);
    auto slope_in = units(layers_[l - 1], slopes);
    for (Eigen::Index i = 0; i < in.size(); ++i) {
      slope_in[i] = 0;
      if (in[i] == 0) continue;  // a silent unit has no part in the scores
      columns.col(i) += in[i] * slope;
      slope_in[i] = leaving.col(i).dot(slope);
    }
  }
}

template <std::floating_point Real>
template <class Number>
auto multilayer_perceptron<Real>::weights(layer const& l, std::span<Number> all)
    -> matrix_at<Number> {
  return {all.data() + l.weights, static_cast<Eigen::Index>(l.outputs),
          static_cast<Eigen::Index>(l.inputs)};
}

template <std::floating_point Real>
template <class Number>
auto multilayer_perceptron<Real>::biases(layer const& l, std::span<Number> all)
    -> vector_at<Number> {
  return {all.data() + l.biases, static_cast<Eigen::Index>(l.outputs)};
}

template <std::floating_point Real>
auto multilayer_perceptron<Real>::units(layer const& l, std::span<Real> all) -> vector_at<Real> {
  return {all.data() + l.units, static_cast<Eigen::Index>(l.outputs)};
}

template <std::floating_point Real>
std::span<Real> multilayer_perceptron<Real>::scores(std::span<Real> outputs) const {
  return outputs.last(classes());
}

template <std::floating_point Real>
std::size_t multilayer_perceptron<Real>::class_of(data::example const& row) const {
  auto const label = static_cast<double>(row.label);
  if (label >= 0 && label < static_cast<double>(classes()) && label == std::floor(label)) {
    return static_cast<std::size_t>(label);
  }
  throw data_error("multilayer_perceptron: a label of " + std::to_string(row.label) +
                   ", expected a class, 0 to " + std::to_string(classes() - 1));
}

template <std::floating_point Real>
void multilayer_perceptron<Real>::expect_sizes(data::dataset_view rows,
                                               std::span<Real const> w) const {
  if (rows.features() > inputs()) {
    throw usage_error(errc::wrong_size, "multilayer_perceptron: rows of " +
                                            std::to_string(rows.features()) +
                                            " features, expected at most as many as inputs, " +
                                            std::to_string(inputs()));
  }
  if (w.size() == parameters_) return;
  throw usage_error(errc::wrong_size, "multilayer_perceptron: " + std::to_string(w.size()) +
                                          " weights, expected " + std::to_string(parameters_));
}

template <std::floating_point Real>
void multilayer_perceptron<Real>::expect_output(std::span<Real> out) const {
  if (out.size() == parameters_) return;
  throw usage_error(errc::wrong_size, "multilayer_perceptron: a result of " +
                                          std::to_string(out.size()) + " numbers, expected " +
                                          std::to_string(parameters_));
}

}  // namespace rubato::model
