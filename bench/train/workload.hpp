// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rubato/data/dataset.hpp"
#include "rubato/model/linear.hpp"
#include "rubato/model/mlp.hpp"

namespace rubato::bench {

enum class model_kind {
  lr,   ///< logistic regression
  svm,  ///< linear support vector machine
  mlp,  ///< multilayer perceptron, not convex
  svr,  ///< linear support vector machine for regression
};
[[nodiscard]] std::string_view name_of(model_kind kind) noexcept;

/// What labels a model can be trained on.
enum class label_use {
  signs,    ///< -1 and +1
  classes,  ///< 0, 1, 2, …
  numbers,  ///< any
};
[[nodiscard]] label_use labels_of(model_kind kind) noexcept;

/// So many rows at most, drawn once at random: what a long objective is computed on.
[[nodiscard]] data::dataset sample(data::dataset const& rows, std::size_t count, std::uint64_t seed);

/// What is trained, apart from the data.
struct workload_options {
  model_kind model = model_kind::lr;
  double l2 = 0;                        ///< weight of the regulariser
  std::vector<std::size_t> hidden{32};  ///< mlp: units of the hidden layers
  double epsilon = 0.1;                 ///< svr: errors up to this are free
  /// The objective is that of so many training rows, drawn once at random, where there are more.
  /// For an mlp all rows cost about 0.5 us each and some 400 points are looked at in a run.
  std::size_t evaluated_rows = std::numeric_limits<std::size_t>::max();
  std::uint64_t seed = 1;  ///< of the initial parameters and of the rows evaluated
};

/// Data and a model to train on it. Parameters are single precision, objectives double.
/// Thread safety: const access from any number of threads.
class workload {
 public:
  /// @throws option_error where the data's labels are not such as the model needs, or the model's
  /// options cannot be meant
  workload(workload_options const& options, data::dataset train, data::dataset test);
  workload(model_kind kind, double l2, data::dataset train, data::dataset test);

  [[nodiscard]] std::string_view name() const noexcept { return name_of(kind_); }
  [[nodiscard]] data::dataset const& train() const noexcept { return train_; }
  [[nodiscard]] data::dataset const& test() const noexcept { return test_; }
  /// The width of the data.
  [[nodiscard]] std::size_t features() const noexcept { return features_; }
  /// The length of a parameter vector: for linear models the number of features.
  [[nodiscard]] std::size_t parameters() const noexcept { return initial_.size(); }
  /// The parameters that training starts from: zeros, but random for an mlp. Valid as long as the
  /// workload is.
  [[nodiscard]] std::span<float const> initial() const noexcept { return initial_; }

  /// On the training set, or `evaluated_rows` of it. O(non-zeros + parameters), an mlp's by far
  /// larger.
  [[nodiscard]] double objective(std::span<float const> w) const;
  /// On the held-out data; for svr the R² there.
  [[nodiscard]] double accuracy(std::span<float const> w) const;
  /// Writes -eta times the batch's mean gradient at `w`. O(non-zeros of the batch + parameters).
  void local_step(data::dataset_view batch, double eta, std::span<float const> w,
                  std::span<float> delta) const;

 private:
  using any_model =
      std::variant<model::logistic_regression<float>, model::support_vector_machine<float>,
                   model::multilayer_perceptron<float>, model::support_vector_regression<float>>;
  [[nodiscard]] any_model make_model(workload_options const& options) const;

  model_kind kind_;
  data::dataset train_;
  data::dataset test_;
  data::dataset evaluated_;
  std::size_t features_;
  any_model model_;
  std::vector<float> initial_;
};

}  // namespace rubato::bench
