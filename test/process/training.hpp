// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "rubato/cluster/cluster.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/core/table.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/storage/sparse.hpp"

// What the processes of a test train, and what the test trains in its own process to compare.
namespace rubato::test {

struct job {
  std::int64_t clocks = 20;
  std::int64_t steps = 0;       ///< a worker ends after so many local steps as well; 0: it does not
  std::size_t weights = 500;
  std::size_t rows = 8;         ///< of the counting tables
  std::size_t columns = 4;      ///< of the counting tables: one for each worker ever
  std::size_t ballast = 1;      ///< rows of the table that only makes commits large, now and then
  std::chrono::microseconds pause{0};  ///< in every step
  bool has_initial_values = true;
  std::int64_t first_count = 1000;  ///< the first value of the keyed table
};

/// Counting tables hold in column m of each row how many steps of worker m they reflect.
using counts_table = dense<std::int64_t, sum>;
using keyed_counts_table = sparse<std::int64_t, sum>;
using ballast_table = dense<std::int64_t, sum>;
/// A merge that keeps versions needs a table that does.
template <protocol P>
using weights_table =
    std::conditional_t<versioned_merge<merge_of<P>>, multi_version<dense<float>>, dense<float>>;

inline constexpr table_tag<0> counts{};
inline constexpr table_tag<1> keyed_counts{};
inline constexpr table_tag<2> weights{};
inline constexpr table_tag<3> ballast{};

[[nodiscard]] constexpr std::uint64_t spread_key(std::uint64_t row) noexcept {
  return row < 3 ? row : row * 0x1'0000'0001u;
}

/// The initial values of a process: those of worker process 0 count, so others have useless ones.
class initial_values {
 public:
  explicit initial_values(job const& j) : weights_(j.weights), row_(j.columns) {
    float const useless = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t i = 0; i < weights_.size(); ++i)
      weights_[i] = j.has_initial_values ? 0.25f + static_cast<float>(i % 17) : useless;
    row_.front() = j.has_initial_values ? j.first_count : -1;
  }
  [[nodiscard]] std::span<float const> weights() const noexcept { return weights_; }
  /// Of the first keyed row.
  [[nodiscard]] std::span<std::int64_t const> row() const noexcept { return row_; }
  [[nodiscard]] std::span<key const> keys() const noexcept { return {&first_, 1}; }

 private:
  std::vector<float> weights_;
  std::vector<std::int64_t> row_;
  key first_{spread_key(0)};
};

template <class Transport, protocol P>
[[nodiscard]] auto make_cluster(Transport transport, P const& p, job const& j,
                                initial_values const& first) {
  return cluster<Transport, P, counts_table, keyed_counts_table, weights_table<P>, ballast_table>(
      std::move(transport), p, counts_table{.rows = j.rows, .width = j.columns},
      keyed_counts_table{.width = j.columns, .init_keys = first.keys(), .init = first.row()},
      weights_table<P>(dense<float>{.rows = j.weights, .init = first.weights()}),
      ballast_table{.rows = j.ballast});
}

/// A training body with gradients that depend on the parameters, the worker and its clock, and on
/// nothing else.
template <class Worker>
class trainee {
 public:
  trainee(Worker& w, job const& j)
      : worker_(w),
        job_(j),
        x_(j.weights),
        gradient_(j.weights),
        counted_(j.rows * j.columns),
        step_(j.rows * j.columns),
        keyed_step_(j.columns),
        ballast_(j.ballast, 1) {
    for (std::size_t row = 0; row < j.rows; ++row) step_[row * j.columns + w.rank()] = 1;
    keyed_step_[w.rank()] = 1;
  }

  /// `each(clock)` is called in every step after the reads. Returns the number of steps.
  std::int64_t run(std::function<void(std::int64_t)> const& each) {
    std::int64_t made = 0;
    while (worker_.clock().value() < job_.clocks && (job_.steps == 0 || made < job_.steps)) {
      worker_[weights].pull(x_);
      worker_[counts].pull(counted_);
      if (made % 3 == 1) worker_[keyed_counts].pull(std::vector{spread_key(made_row(made))}, keyed_);
      each(worker_.clock().value());
      push(made);
      if (job_.pause.count() != 0) std::this_thread::sleep_for(job_.pause);
      ++made;
      worker_.step(1);
    }
    return made;
  }
  [[nodiscard]] std::int64_t heavy_pushes() const noexcept { return heavy_pushes_; }

 private:
  [[nodiscard]] std::uint64_t made_row(std::int64_t made) const {
    return static_cast<std::uint64_t>(made) % job_.rows;
  }

  void push(std::int64_t made) {
    auto const salt = static_cast<std::uint64_t>(worker_.clock().value()) * 64 + worker_.rank();
    for (std::size_t i = 0; i < x_.size(); ++i) {
      auto const noise = static_cast<float>(rubato::detail::mix64(salt ^ (i << 32)) % 1000);
      gradient_[i] = -0.01f * x_[i] + 1e-4f * noise;
    }
    worker_[weights].push(gradient_);
    worker_[counts].push(step_);
    worker_[keyed_counts].push(std::vector{spread_key(made_row(made))}, keyed_step_);
    if (job_.ballast == 1 || made % 5 != 2) return;
    worker_[ballast].push(ballast_);
    ++heavy_pushes_;
  }

  Worker& worker_;
  job const& job_;
  std::vector<float> x_;
  std::vector<float> gradient_;
  std::vector<std::int64_t> counted_;
  std::vector<std::int64_t> step_;
  std::vector<std::int64_t> keyed_step_;
  std::vector<std::int64_t> keyed_ = std::vector<std::int64_t>(keyed_step_.size());
  std::vector<std::int64_t> ballast_;
  std::int64_t heavy_pushes_ = 0;
};

// ---- what a run came to, in words that can be compared

[[nodiscard]] inline std::string hash_of(std::span<float const> values) {
  std::uint64_t hash = values.size();
  for (float const x : values)
    hash = rubato::detail::mix64(hash ^ std::bit_cast<std::uint32_t>(x)) + 0x9e3779b97f4a7c15u;
  return std::to_string(hash);
}

template <class Values>
[[nodiscard]] std::string listed(Values const& values) {
  std::string all;
  for (auto const& v : values) all += (all.empty() ? "" : " ") + std::to_string(v);
  return all;
}

/// By worker: its steps, summed over the rows that name it.
[[nodiscard]] inline std::vector<std::int64_t> column_totals(std::span<std::int64_t const> values,
                                                             std::size_t columns) {
  std::vector<std::int64_t> totals(columns);
  for (std::size_t i = 0; i < values.size(); ++i) totals[i % columns] += values[i];
  return totals;
}

}  // namespace rubato::test
