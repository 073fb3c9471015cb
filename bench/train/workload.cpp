// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/workload.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

constexpr float classes_max = 65'536;

bool fits(label_use use, float label) {
  switch (use) {
    case label_use::signs:
      return label == -1 || label == 1;
    case label_use::classes:
      return label >= 0 && label < classes_max && label == std::floor(label);
    case label_use::numbers:
      break;
  }
  return true;
}

void check_labels(model_kind kind, data::dataset const& rows) {
  label_use const use = labels_of(kind);
  for (float const label : rows.labels()) {
    if (fits(use, label)) continue;
    throw option_error(fmt::format(
        "--workload {}: the data has the label {}, expected {}", name_of(kind), label,
        use == label_use::signs
            ? "-1 and +1 only; mlp takes several classes and svr any numbers"
            : fmt::format("classes 0, 1, 2, … below {}; lr and svm take -1 and +1", classes_max)));
  }
}

std::size_t classes_of(data::dataset const& train, data::dataset const& test) {
  float last = 1;  // one class alone is nothing to learn
  for (data::dataset const* rows : {&train, &test})
    for (float const label : rows->labels()) last = std::max(last, label);
  return static_cast<std::size_t>(last) + 1;
}

}  // namespace

data::dataset sample(data::dataset const& rows, std::size_t count, std::uint64_t seed) {
  if (count >= rows.size()) return rows;
  return rows.split(static_cast<double>(count) / static_cast<double>(rows.size()), seed).test;
}

std::string_view name_of(model_kind kind) noexcept {
  switch (kind) {
    case model_kind::lr:
      return "lr";
    case model_kind::svm:
      return "svm";
    case model_kind::mlp:
      return "mlp";
    case model_kind::svr:
      break;
  }
  return "svr";
}

label_use labels_of(model_kind kind) noexcept {
  if (kind == model_kind::mlp) return label_use::classes;
  return kind == model_kind::svr ? label_use::numbers : label_use::signs;
}

workload::workload(model_kind kind, double l2, data::dataset train, data::dataset test)
    : workload({.model = kind, .l2 = l2}, std::move(train), std::move(test)) {}

workload::workload(workload_options const& options, data::dataset train, data::dataset test)
    : kind_(options.model),
      train_(std::move(train)),
      test_(std::move(test)),
      evaluated_(sample(train_, options.evaluated_rows, options.seed)),
      features_(std::max(train_.features(), test_.features())) {
  check_labels(kind_, train_);
  check_labels(kind_, test_);
  model_ = make_model(options);
  auto const* const net = std::get_if<model::multilayer_perceptron<float>>(&model_);
  initial_ = net != nullptr ? net->initial(options.seed) : std::vector<float>(features_);
}

workload::any_model workload::make_model(workload_options const& options) const {
  switch (kind_) {
    case model_kind::lr:
      return model::logistic_regression<float>{.l2 = options.l2};
    case model_kind::svm:
      return model::support_vector_machine<float>{.l2 = options.l2};
    case model_kind::svr:
      return model::support_vector_regression<float>{.l2 = options.l2,
                                                     .loss = {.epsilon = options.epsilon}};
    case model_kind::mlp:
      break;
  }
  return model::multilayer_perceptron<float>({.inputs = features_,
                                              .hidden = options.hidden,
                                              .classes = classes_of(train_, test_),
                                              .l2 = options.l2});
}

double workload::objective(std::span<float const> w) const {
  return std::visit([&](auto const& m) { return m.objective(evaluated_, w); }, model_);
}

double workload::accuracy(std::span<float const> w) const {
  return std::visit([&](auto const& m) { return m.accuracy(test_, w); }, model_);
}

void workload::local_step(data::dataset_view batch, double eta, std::span<float const> w,
                          std::span<float> delta) const {
  std::visit([&](auto const& m) { m.local_step(batch, eta, w, delta); }, model_);
}

}  // namespace rubato::bench
