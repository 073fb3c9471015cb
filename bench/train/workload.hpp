// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "rubato/data/dataset.hpp"
#include "rubato/model/linear.hpp"

namespace rubato::bench {

enum class model_kind { lr, svm };

/// Data and a model to train on it. Parameters are single precision, objectives double.
/// Thread safety: const access from any number of threads.
class workload {
 public:
  workload(model_kind kind, double l2, data::dataset train, data::dataset test);

  [[nodiscard]] std::string_view name() const noexcept {
    return kind_ == model_kind::lr ? "lr" : "svm";
  }
  [[nodiscard]] data::dataset const& train() const noexcept { return train_; }
  [[nodiscard]] data::dataset const& test() const noexcept { return test_; }
  /// The length of a parameter vector.
  [[nodiscard]] std::size_t features() const noexcept { return features_; }

  /// On the full training set. O(non-zeros + features).
  [[nodiscard]] double objective(std::span<float const> w) const;
  /// On the held-out data.
  [[nodiscard]] double accuracy(std::span<float const> w) const;
  /// Writes -eta times the batch's mean gradient at `w`. O(non-zeros of the batch + features).
  void local_step(data::dataset_view batch, double eta, std::span<float const> w,
                  std::span<float> delta) const;

 private:
  model_kind kind_;
  std::variant<model::logistic_regression<float>, model::support_vector_machine<float>> model_;
  data::dataset train_;
  data::dataset test_;
  std::size_t features_;
};

}  // namespace rubato::bench
