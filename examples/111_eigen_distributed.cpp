// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// 110_eigen_alone on several processes; the five lines that differ are marked.
//   rubato-launch -n 3 -s 1 -- 111_eigen_distributed
// The launcher starts this program as coordinator and as server, too.
#include <Eigen/Dense>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/transport/tcp.hpp>

namespace rb = rubato;

int main() try {
  constexpr Eigen::Index features = 20, rows = 2'000, batch = 50;
  std::srand(1);
  Eigen::MatrixXf const x = Eigen::MatrixXf::Random(rows, features);
  Eigen::VectorXf const truth = Eigen::VectorXf::Random(features);
  Eigen::VectorXf const y = x * truth;

  Eigen::VectorXf w = Eigen::VectorXf::Zero(features);
  rb::cluster cluster{rb::tcp::from_environment(), rb::bsp{}, rb::dense<float>{.rows = features}};  // 1
  cluster.run([&](auto& worker) {                                                                  // 2
    for (int epoch = 0; epoch < 20; ++epoch) {
      for (Eigen::Index at = worker.rank() * batch; at < rows; at += worker.count() * batch) {     // 3
        worker.pull(w);                                                                            // 4
        auto const part = x.middleRows(at, batch);
        Eigen::VectorXf const gradient =
            part.transpose() * (part * w - y.segment(at, batch)) / static_cast<float>(batch);
        Eigen::VectorXf const delta = -0.5F * gradient;
        worker.push(delta), worker.step();                                                         // 5
      }
    }
    worker.pull(w);
    if (worker.rank() == 0)
      std::printf("distance to the truth: %.4f\n", static_cast<double>((w - truth).norm()));
  });
} catch (rb::error const& e) {
  std::fprintf(stderr, "111_eigen_distributed: %s\n", e.what());
  return 1;
}
