// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <rubato/cluster/cluster.hpp>
#include <rubato/core/random.hpp>
#include <utility>
#include <vector>

/// A training job, as a plain sequential program and through a cluster: under BSP they agree bit
/// for bit.
namespace rubato::test {

inline constexpr std::size_t size = 24;
using weights = std::vector<float>;

/// A step's update: depends on what was read, so that a difference grows instead of hiding.
inline weights update_of(weights const& w, std::uint32_t rank, std::int64_t clock,
                         std::int64_t step) {
  random_stream random(rank, static_cast<std::uint64_t>(clock), static_cast<std::uint64_t>(step));
  weights u(size);
  for (std::size_t i = 0; i < size; ++i)
    u[i] = static_cast<float>(random.uniform() - 0.5) - 0.25f * w[(i + 1) % size];
  return u;
}

inline weights first_weights() {
  random_stream random(7);
  weights w(size);
  for (float& x : w) x = static_cast<float>(random.uniform());
  return w;
}

/// What a run is to compute: each worker makes so many clocks of `steps` local steps.
struct job {
  std::vector<std::int64_t> clocks;
  std::int64_t steps;
  weights init = first_weights();
};

inline job random_job(std::uint64_t seed, std::uint32_t workers) {
  random_stream random(seed, 0x70b);
  job j{{}, 1 + static_cast<std::int64_t>(random.below(3))};
  for (std::uint32_t w = 0; w < workers; ++w)
    j.clocks.push_back(static_cast<std::int64_t>(random.below(9)));
  return j;
}

/// The plain program: one clock after the other, one worker after the other.
inline weights sequential(job const& j) {
  weights w = j.init;
  for (std::int64_t clock = 0; clock < std::ranges::max(j.clocks); ++clock) {
    std::vector<weights> sums;
    for (std::uint32_t rank = 0; rank < j.clocks.size(); ++rank) {
      if (j.clocks[rank] <= clock) continue;
      weights sum(size);
      for (std::int64_t step = 0; step < j.steps; ++step) {
        weights replica = w;
        for (std::size_t i = 0; i < size; ++i) replica[i] += sum[i];
        weights const u = update_of(replica, rank, clock, step);
        for (std::size_t i = 0; i < size; ++i) sum[i] = step == 0 ? u[i] : sum[i] + u[i];
      }
      sums.push_back(std::move(sum));
    }
    auto const part = static_cast<float>(1.0 / static_cast<double>(sums.size()));
    for (auto const& sum : sums)
      for (std::size_t i = 0; i < size; ++i) w[i] += part * sum[i];
  }
  return w;
}

/// The same through a cluster.
template <class Transport, protocol P>
weights distributed(Transport transport, P const& p, job const& j) {
  cluster c{std::move(transport), p, dense<float>{.rows = size, .init = j.init}};
  c.run([&](auto& worker) {
    weights w(size);
    while (worker.clock().value() < j.clocks[worker.rank()]) {
      worker.pull(w);
      worker.push(update_of(w, worker.rank(), worker.clock().value(), worker.steps_since_commit()));
      worker.step();
    }
  });
  return c.parameters();
}

inline bool same_bits(weights const& a, weights const& b) {
  return std::ranges::equal(
      a, b, {}, [](float x) { return std::bit_cast<std::uint32_t>(x); },
      [](float x) { return std::bit_cast<std::uint32_t>(x); });
}

}  // namespace rubato::test
