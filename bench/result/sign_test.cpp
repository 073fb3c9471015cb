// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/result/sign_test.hpp"

#include <algorithm>
#include <cmath>

namespace rubato::bench {

double sign_test(std::size_t k, std::size_t n) {
  double at = std::exp2(-static_cast<double>(n));  // of i heads
  double sum = 0;
  for (std::size_t i = 0; i <= std::min(k, n - std::min(k, n)); ++i) {
    sum += at;
    at *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return std::min(1.0, 2 * sum);
}

}  // namespace rubato::bench
