// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/workload.hpp"

#include <algorithm>

namespace rubato::bench {

workload::workload(model_kind kind, double l2, data::dataset train, data::dataset test)
    : kind_(kind),
      train_(std::move(train)),
      test_(std::move(test)),
      features_(std::max(train_.features(), test_.features())) {
  if (kind == model_kind::lr)
    model_ = model::logistic_regression<float>{.l2 = l2};
  else
    model_ = model::support_vector_machine<float>{.l2 = l2};
}

double workload::objective(std::span<float const> w) const {
  return std::visit([&](auto const& m) { return m.objective(train_, w); }, model_);
}

double workload::accuracy(std::span<float const> w) const {
  return std::visit([&](auto const& m) { return m.accuracy(test_, w); }, model_);
}

void workload::local_step(data::dataset_view batch, double eta, std::span<float const> w,
                          std::span<float> delta) const {
  std::visit([&](auto const& m) { m.local_step(batch, eta, w, delta); }, model_);
}

}  // namespace rubato::bench
