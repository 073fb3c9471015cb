// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A training program of the kind that many have: Eigen, one process. 111_eigen_distributed is the
// same program after five lines were changed.
#include <Eigen/Dense>
#include <cstdio>

int main() {
  constexpr Eigen::Index features = 20, rows = 2'000, batch = 50;
  std::srand(1);
  Eigen::MatrixXf const x = Eigen::MatrixXf::Random(rows, features);
  Eigen::VectorXf const truth = Eigen::VectorXf::Random(features);
  Eigen::VectorXf const y = x * truth;

  Eigen::VectorXf w = Eigen::VectorXf::Zero(features);
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (Eigen::Index at = 0; at < rows; at += batch) {
      auto const part = x.middleRows(at, batch);
      Eigen::VectorXf const gradient =
          part.transpose() * (part * w - y.segment(at, batch)) / static_cast<float>(batch);
      w -= 0.5F * gradient;
    }
  }
  std::printf("distance to the truth: %.4f\n", static_cast<double>((w - truth).norm()));
}
