// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <Eigen/Core>

#include <rubato/data/view.hpp>

namespace rubato::model {

/// The shape of a `multilayer_perceptron`.
struct perceptron_options {
  std::size_t inputs = 0;               ///< features of the data; at least 1
  std::vector<std::size_t> hidden{32};  ///< units of each hidden layer, from the input on
  std::size_t classes = 10;             ///< labels are 0 … classes − 1; at least 2
  double l2 = 0;                        ///< weight of the regulariser; not negative
};

/// A fully connected network that tells classes apart: hidden layers of rectified linear units,
/// softmax at the end. Its objective is not convex:
///   mean over rows of −log(probability of the row's class)  +  l2 / 2 |w|²
/// with all parameters in |w|², biases too. Without hidden layers it is multinomial logistic
/// regression, which is convex.
///
/// Rectified units and not tanh: they cost a comparison, and about half of them are silent for a
/// row, so that the layers behind skip them as the first one skips features that a row lacks.
///
/// It holds no weights; whoever trains it owns them as one flat span of `parameters()` numbers.
/// Layer after layer they are the weights, those that leave one input side by side, then the
/// biases. So a stored value of a row touches one run of memory, and the rest of the first layer is
/// left alone.
///
/// Errors: usage_error with errc::wrong_size for spans of another length and for rows with more
/// features than inputs; data_error for a label that is no class, after which the contents of the
/// output are unspecified. Numbers that overflow make the objective NaN or infinite, never small.
/// Scores and gradients are `Real`, probabilities and the objective double; always in row order, so
/// a result depends on the arguments only. Thread safety: all members but assignment are const and
/// may run concurrently on one object; scratch memory belongs to the call.
///
/// Below, n is the number of stored values in the rows at hand, and P = `parameters()`. A row costs
/// O(first hidden layer) for each stored value, and O(weights) of the layers behind.
///
/// Source: the layers and the gradient are textbook material; `initial` is K. He et al., "Delving
/// Deep into Rectifiers", ICCV 2015.
///
/// \code
/// model::multilayer_perceptron<float> const net({.inputs = 196, .hidden = {32}, .classes = 10});
/// std::vector<float> w = net.initial(seed), delta(net.parameters());
/// net.local_step(batch, 0.1, w, delta);
/// \endcode
template <std::floating_point Real = float>
class multilayer_perceptron {
 public:
  /// @throws option_error for a layer of no units, fewer than two classes or a bad l2
  explicit multilayer_perceptron(perceptron_options const& options);

  /// The length of a weight vector.
  [[nodiscard]] std::size_t parameters() const noexcept { return parameters_; }
  /// How many features a row has.
  [[nodiscard]] std::size_t inputs() const noexcept { return layers_.front().inputs; }
  /// How many classes it tells apart.
  [[nodiscard]] std::size_t classes() const noexcept { return layers_.back().outputs; }

  /// Weights to start from: normal with variance 2 / inputs of the layer, biases 0. (Zero is a
  /// saddle point: no hidden unit would ever differ from the others.) The same bits for the same
  /// seed, on every compiler. O(P).
  [[nodiscard]] std::vector<Real> initial(std::uint64_t seed) const;

  /// Mean loss plus regulariser; without rows the mean loss counts as 0. O(rows + P).
  [[nodiscard]] double objective(data::dataset_view rows, std::span<Real const> w) const;

  /// Share of rows whose class has the highest score, in [0, 1]; of equal scores the first counts.
  /// 0 without rows. O(rows).
  [[nodiscard]] double accuracy(data::dataset_view rows, std::span<Real const> w) const;

  /// Writes the gradient of `objective` at w (a subgradient where a unit's input is exactly 0).
  /// `gradient` does not overlap w. O(rows + P), and one small allocation.
  void gradient(data::dataset_view batch, std::span<Real const> w, std::span<Real> gradient) const;

  /// One local step: writes delta = −eta · gradient. Without rows delta is 0: a worker that has no
  /// data must not shrink what others have learned. Otherwise as `gradient`.
  void local_step(data::dataset_view batch, double eta, std::span<Real const> w,
                  std::span<Real> delta) const;

 private:
  /// Where a layer's numbers lie in a weight vector, and its units' in a list of all units.
  struct layer {
    std::size_t inputs, outputs;
    std::size_t weights, biases;
    std::size_t units;
  };
  template <class Number>
  using matrix_at =
      Eigen::Map<std::conditional_t<std::is_const_v<Number>,
                                    Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic> const,
                                    Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic>>>;
  template <class Number>
  using vector_at = Eigen::Map<
      std::conditional_t<std::is_const_v<Number>, Eigen::Matrix<Real, Eigen::Dynamic, 1> const,
                         Eigen::Matrix<Real, Eigen::Dynamic, 1>>>;

  // Views of a layer's part of `all`: its weights as outputs x inputs, in columns.
  template <class Number>
  static matrix_at<Number> weights(layer const& l, std::span<Number> all);
  template <class Number>
  static vector_at<Number> biases(layer const& l, std::span<Number> all);
  static vector_at<Real> units(layer const& l, std::span<Real> all);

  void add_layer(std::size_t inputs, std::size_t outputs);
  void write_scaled_gradient(data::dataset_view batch, double factor, std::span<Real const> w,
                             std::span<Real> out) const;
  void forward(data::example const& row, std::span<Real const> w, std::span<Real> outputs) const;
  void backward(data::example const& row, std::span<Real const> w, std::span<Real> outputs,
                std::span<Real> slopes, std::span<Real> out) const;
  [[nodiscard]] std::span<Real> scores(std::span<Real> outputs) const;
  [[nodiscard]] std::size_t class_of(data::example const& row) const;
  void expect_sizes(data::dataset_view rows, std::span<Real const> w) const;
  void expect_output(std::span<Real> out) const;

  std::vector<layer> layers_;  // never empty
  std::size_t parameters_ = 0;
  std::size_t units_ = 0;
  double l2_;
};

}  // namespace rubato::model

#include <rubato/model/impl/mlp.hpp>
