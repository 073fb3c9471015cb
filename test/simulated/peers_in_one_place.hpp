// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <rubato/core/ids.hpp>
#include <rubato/core/random.hpp>
#include <rubato/peer/concepts.hpp>
#include <rubato/peer/local_step.hpp>
#include <rubato/peer/mixing.hpp>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

/// What decentralized training computes, in one loop: what HOP-3 compares a run of peers with.
namespace rubato::test {

/// Of all peers, by rank.
template <class T>
using peer_states = std::vector<std::vector<T>>;

template <class T>
[[nodiscard]] bool same_bits(std::span<T const> a, std::span<T const> b) {
  using bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  return std::ranges::equal(
      a, b, [](T x, T y) { return std::bit_cast<bits>(x) == std::bit_cast<bits>(y); });
}

/// What stands for a gradient: of the parameters, and of who computes it when.
template <class T>
[[nodiscard]] std::vector<T> gradient_at(std::span<T const> x, std::uint32_t rank, std::int64_t k) {
  random_stream noise(rank, static_cast<std::uint64_t>(k));
  std::vector<T> g;
  for (T const v : x) g.push_back(T{0.25} * v + static_cast<T>(noise.uniform()) - T{0.5});
  return g;
}

/// One peer's sgd, as its comment says it.
template <class T>
class plain_sgd {
 public:
  plain_sgd(sgd const& options, std::size_t size)
      : rate_(static_cast<T>(options.rate)),
        momentum_(static_cast<T>(options.momentum)),
        decay_(static_cast<T>(options.decay)),
        velocity_(size) {}

  void apply(std::vector<T> const& x, std::vector<T> const& gradient, std::vector<T>& to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      velocity_[i] = momentum_ * velocity_[i] + (gradient[i] + decay_ * x[i]);
      to[i] -= rate_ * velocity_[i];
    }
  }

 private:
  T rate_, momentum_, decay_;
  std::vector<T> velocity_;
};

/// What peer j reduces to: the updates in ascending order of the sender, its own in its place.
template <class T>
[[nodiscard]] std::vector<T> mixed(mixing_matrix const& w, std::uint32_t j,
                                   peer_states<T> const& sent) {
  std::vector<std::pair<std::uint32_t, double>> weights{{j, w.self(worker_id{j})}};
  auto const in = w.topology().in(worker_id{j});
  for (std::size_t n = 0; n < in.size(); ++n)
    weights.emplace_back(in[n].value(), w.of(worker_id{j})[n]);
  std::ranges::sort(weights);
  std::vector<T> sum(sent[j].size());
  for (std::size_t p = 0; p < sum.size(); ++p) {
    sum[p] = static_cast<T>(weights[0].second) * sent[weights[0].first][p];
    for (std::size_t n = 1; n < weights.size(); ++n)
      sum[p] += static_cast<T>(weights[n].second) * sent[weights[n].first][p];
  }
  return sum;
}

/// x_{k+1} = W^T x_k + step in parallel order, and the step before the average in serial order: the
/// states before each iteration, and after the last.
template <class T>
[[nodiscard]] std::vector<peer_states<T>> in_one_place(mixing_matrix const& w,
                                                       iteration_order order, sgd const& options,
                                                       peer_states<T> first,
                                                       std::int64_t iterations) {
  auto const peers = static_cast<std::uint32_t>(first.size());
  std::vector<plain_sgd<T>> steps(peers, plain_sgd<T>(options, first[0].size()));
  std::vector<peer_states<T>> all{std::move(first)};
  for (std::int64_t k = 0; k < iterations; ++k) {
    peer_states<T> const& x = all.back();
    auto const step = [&](std::uint32_t i, std::vector<T>& to) {
      steps[i].apply(x[i], gradient_at<T>(x[i], i, k), to);
    };
    peer_states<T> sent = x;
    if (order == iteration_order::serial)
      for (std::uint32_t i = 0; i < peers; ++i) step(i, sent[i]);
    peer_states<T> next;
    for (std::uint32_t j = 0; j < peers; ++j) {
      next.push_back(mixed(w, j, sent));
      if (order == iteration_order::parallel) step(j, next.back());
    }
    all.push_back(std::move(next));
  }
  return all;
}

/// What peers under all_reduce come to, in one loop: chunk c of the gradient is summed from peer c on.
[[nodiscard]] inline std::vector<peer_states<double>> all_reduced(sgd const& options, peer_states<double> first,
                                                                  std::int64_t iterations) {
  auto const peers = static_cast<std::uint32_t>(first.size());
  std::size_t const size = first[0].size();
  plain_sgd<double> step(options, size);  // of one, since all are alike
  std::vector<peer_states<double>> all{std::move(first)};
  for (std::int64_t k = 0; k < iterations; ++k) {
    std::vector<double> x = all.back()[0];
    peer_states<double> gradients;
    for (std::uint32_t i = 0; i < peers; ++i) gradients.push_back(gradient_at<double>(x, i, k));
    std::vector<double> mean;
    for (std::uint32_t c = 0; c < peers; ++c)
      for (std::size_t n = size / peers + (c < size % peers ? 1 : 0); n != 0; --n) {
        double sum = gradients[c][mean.size()];
        for (std::uint32_t i = 1; i < peers; ++i) sum = gradients[(c + i) % peers][mean.size()] + sum;
        mean.push_back(peers == 1 ? sum : sum / peers);
      }
    step.apply(x, mean, x);
    all.emplace_back(peers, x);
  }
  return all;
}

}  // namespace rubato::test
