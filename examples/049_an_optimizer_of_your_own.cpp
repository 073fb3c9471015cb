// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// An optimizer of your own on the servers: Lion, which moves each element by the sign of what it has heard of it.
// Four workers send plain gradients of a valley that is a thousand times steeper along one axis than along the other.
// Prints how far servers get that add, that take Adam, and that take this one; and what its checks find.
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/testing/conformance.hpp>
#include <vector>

namespace rb = rubato;

struct lion {
  double rate = 0.01, beta1 = 0.5, beta2 = 0.9;

  static constexpr std::size_t slots = 1;  // a value beside each element, here its momentum m

  double weight(rb::commit_info const& c) const noexcept { return 1.0 / c.workers; }
  template <class T>  // what is added to w, for the mean d of a clock's updates
  T step(rb::fold_step, T, T d, T& m) const noexcept {
    T const c = static_cast<T>(beta1) * m + static_cast<T>(1 - beta1) * d;
    m = static_cast<T>(beta2) * m + static_cast<T>(1 - beta2) * d;
    return static_cast<T>(rate) * static_cast<T>((c > 0) - (c < 0));
  }
};

double train(auto protocol) {
  std::vector<float> const start{5, 5};
  rb::cluster cluster{rb::simulated{.workers = 4}, protocol, rb::dense<float>{.rows = 2, .init = start}};
  cluster.run([](auto& worker) {
    std::vector<float> w(2);
    for (int i = 0; i < 600; ++i) {
      worker.pull(w);
      worker.push(std::vector<float>{-0.001F * w[0], -w[1]});
      worker.step();
    }
  });
  auto const& w = cluster.parameters();
  return 0.0005 * w[0] * w[0] + 0.5 * w[1] * w[1];
}

int main() {
  std::printf("%zu broken promises\n", rb::testing::check_merge(lion{}).size());
  std::printf("added up: %.6f\n", train(rb::bsp{}));
  std::printf("adam:     %.6f\n", train(with(rb::bsp{}, rb::adam{.rate = 0.02, .tau = 1e-6})));
  std::printf("lion:     %.6f\n", train(with(rb::bsp{}, lion{})));
}
