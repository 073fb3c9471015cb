// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <rubato/peer/exchange.hpp>
#include <rubato/peer/graph.hpp>
#include <vector>

#include "simulated/peers_in_one_place.hpp"

namespace rubato::test {

/// Algorithm 1 of Assran et al. in one loop, as the paper has it: x and w are pushed, z = x / w is where gradients are
/// computed, and x takes the step. But who has less than a quarter of the weight that each had at first pushes nothing,
/// and with a delay peers push in every delay-th iteration, which counts as many later. The z before each iteration,
/// and after the last, when all that is under way has arrived.
[[nodiscard]] inline std::vector<peer_states<double>> pushed_in_one_place(exchange_rules const& who, graph const& g,
                                                                          std::int64_t delay, double rate,
                                                                          peer_states<double> x,
                                                                          std::int64_t iterations) {
  std::size_t const n = x.size(), size = x[0].size();
  for (auto& one : x) one.push_back(1);  // w, pushed as any parameter
  auto const debiased = [&] {
    peer_states<double> z;
    for (auto const& one : x) {
      z.emplace_back(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(size));
      for (double& v : z.back()) v /= one[size];
    }
    return z;
  };
  std::vector<peer_states<double>> all{debiased()};
  std::vector<peer_states<double>> pushed;  // by exchange: to whom, what
  auto const arrive = [&](std::int64_t of) {
    if (of < 0) return;
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t p = 0; p <= size; ++p) x[j][p] += pushed[static_cast<std::size_t>(of)][j][p];
  };
  std::int64_t const every = std::max<std::int64_t>(1, delay);
  for (std::int64_t k = 0; k < iterations; ++k) {
    for (std::uint32_t i = 0; i < n; ++i) {
      auto const gradient = gradient_at<double>(all.back()[i], i, k);
      for (std::size_t p = 0; p < size; ++p) x[i][p] -= rate * gradient[p];
    }
    std::int64_t const number = k / every;
    if (k % every == 0) {
      pushed.emplace_back(n, std::vector<double>(size + 1));
      for (std::uint32_t i = 0; i < n; ++i) {
        auto const to = who.out(g, worker_id{i}, iteration_index{number});
        if (x[i][size] < 0.25) continue;
        for (double& v : x[i]) v /= static_cast<double>(to.size() + 1);
        for (worker_id const j : to)
          for (std::size_t p = 0; p <= size; ++p) pushed.back()[j.index()][p] += x[i][p];
      }
      arrive(delay == 0 ? number : number - 1);
    }
    if (k + 1 == iterations && delay > 0) arrive(number);
    all.push_back(debiased());
  }
  return all;
}

}  // namespace rubato::test
