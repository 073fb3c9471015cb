// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rubato/algorithm/k_means_centres.hpp"
#include "rubato/algorithm/own_batches.hpp"
#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/core/table.hpp"
#include "rubato/data/dataset.hpp"
#include "rubato/partition/range.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/task/task.hpp"

namespace rubato::algorithm {

/// k-means: what it does, and how.
struct k_means_options {
  std::int64_t clocks = 20;  ///< batches that each worker goes over
  double batch = 1;          ///< share of a worker's rows in a batch, in (0, 1]
  /// Degree, protocol, which sends and folds all, and so on; iterations and cleared tables are the algorithm's.
  stage_options stage{};

  /// @throws option_error naming the option and what was expected
  void check() const {
    detail::expect(clocks >= 1, "k_means: clocks must be at least 1");
    detail::expect(batch > 0 && batch <= 1, "k_means: batch must be above 0 and at most 1, a share of the rows");
    detail::expect_unset(stage, "k_means: stage");
    detail::expect_all_folded(stage, "k_means: stage");
  }
};

/// A task for k-means: table 0 has for each cluster the sum of its rows, table 1 their number, and table 2 for each
/// row of the data 1 + the cluster that it is in, or 0 as long as it is in none.
template <std::floating_point Real = double>
using k_means_task = task<dense<Real, sum>, dense<std::int64_t, sum>, dense<std::int64_t, sum, range>>;

/// @param clusters at least 1
template <std::floating_point Real = double>
[[nodiscard]] k_means_task<Real> make_k_means_task(data::dataset_view rows, std::size_t clusters) {
  return k_means_task<Real>({.rows = clusters, .width = rows.features()}, {.rows = clusters}, {.rows = rows.size()});
}

/// What the workers of k-means do: each owns a stretch of rows. In a clock it pulls sums and counts, puts the rows
/// of a batch into the clusters whose centres are nearest, and pushes what that changes: a row that moves is taken
/// from one cluster's sum and count and added to another's. So at any time tables 0 and 1 are those of the rows
/// where they are, up to rounding of the sums, whatever the batches and the protocol, which folds all commits; one
/// worker that goes over all rows does what Lloyd's algorithm does.
///
/// An empty cluster has its first centre, which all workers know. Under asynchronous protocols a worker may read a
/// cluster's sum without a count that belongs to it (a stable cut excludes that): its centre is off for a clock.
/// `step` is priced at the stored values of the batch times the clusters.
/// Immutable: workers share it, in whatever threads.
/// Source: Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory, 1982.
template <std::floating_point Real>
class k_means_clocks {
 public:
  /// @param first centres, one after the other, as many numbers each as there are features; at least one
  /// @param batch share of a worker's rows that it goes over in a clock, in (0, 1]
  k_means_clocks(data::dataset rows, std::vector<double> first, double batch)
      : rows_(std::move(rows)),
        first_(std::make_shared<std::vector<double> const>(std::move(first))),
        clusters_(first_->size() / rows_.features()),
        batch_(batch) {}

  template <class Worker>
  void operator()(Worker& worker, iteration_range todo) const {
    detail::expect_not_joined(worker, "k_means");
    own_batches const own(rows_.size(), worker.rank(), worker.count(), batch_);
    state s{.first = own.all().first,
            .cluster_of = std::vector<std::int64_t>(own.all().size()),
            .sums = std::vector<Real>(first_->size()),
            .counts = std::vector<std::int64_t>(clusters_)};
    std::vector<key> keys;
    for (std::size_t i = 0; i < s.cluster_of.size(); ++i) keys.emplace_back(s.first + i);
    worker[table<2>].pull(keys, s.cluster_of);  // not all are in none, where a stage goes on
    for (std::int64_t const i : todo) worker.step(assign(worker, own.at_step(i), s));
  }

 private:
  struct state {
    std::size_t first;                     ///< of the own rows
    std::vector<std::int64_t> cluster_of;  ///< the own rows, as in table 2
    std::vector<Real> sums;
    std::vector<std::int64_t> counts;
  };

  /// Returns the work.
  template <class Worker>
  double assign(Worker& worker, line_range batch, state& s) const {
    worker[table<0>].pull(s.sums);
    worker[table<1>].pull(s.counts);
    nearest_centre const nearest(
        k_means_centres(std::span<Real const>(s.sums), std::span<std::int64_t const>(s.counts), *first_),
        rows_.features());
    std::vector<std::vector<Real>> sums(clusters_);  // what is to be added; empty where nothing is
    std::vector<std::int64_t> counts(clusters_), moves;
    std::vector<key> moved;
    for (std::size_t i = batch.first; i < batch.last; ++i) {
      std::int64_t& now = s.cluster_of[i - s.first];
      auto const next = static_cast<std::int64_t>(nearest.to(rows_[i]).centre) + 1;
      if (next == now) continue;
      if (now != 0) count(rows_[i], -1, static_cast<std::size_t>(now - 1), sums, counts);
      count(rows_[i], 1, static_cast<std::size_t>(next - 1), sums, counts);
      moved.emplace_back(i);
      moves.push_back(next - now);
      now = next;
    }
    push_sums(worker, sums);
    worker[table<1>].push(counts);
    worker[table<2>].push(moved, moves);
    return static_cast<double>(rows_.rows().slice(batch.first, batch.size()).nonzeros() * clusters_);
  }

  /// Adds a row to a cluster, or with sign -1 takes it away.
  void count(data::example const& row, int sign, std::size_t cluster, std::vector<std::vector<Real>>& sums,
             std::vector<std::int64_t>& counts) const {
    counts[cluster] += sign;
    sums[cluster].resize(rows_.features());
    for (std::size_t k = 0; k < row.indices.size(); ++k)
      sums[cluster][row.indices[k]] += static_cast<Real>(sign) * static_cast<Real>(row.values[k]);
  }

  template <class Worker>
  void push_sums(Worker& worker, std::vector<std::vector<Real>> const& sums) const {
    std::vector<key> changed;
    std::vector<Real> values;
    for (std::size_t c = 0; c < sums.size(); ++c) {
      if (sums[c].empty()) continue;
      changed.emplace_back(c);
      values.insert(values.end(), sums[c].begin(), sums[c].end());
    }
    worker[table<0>].push(changed, values);
  }

  data::dataset rows_;
  std::shared_ptr<std::vector<double> const> first_;
  std::size_t clusters_;
  double batch_;
};

/// Appends k-means to what a task does.
///
///     auto const first = algorithm::k_means_plus_plus(rows, 10, 1);
///     auto t = algorithm::make_k_means_task(rows, 10);
///     algorithm::k_means(t, rows, first, {.clocks = 30, .stage = {.workers = 4}});
///     engine.submit(t).wait();
///     use(algorithm::k_means_centres(t, first));
///
/// Workers own rows by rank, so none may join a stage that is under way: its body throws usage_error.
/// @param first centres, the same in all processes @param rows kept by the task
/// @throws option_error naming the option and what was expected
template <std::floating_point Real>
stage_ref k_means(k_means_task<Real>& t, data::dataset const& rows, std::vector<double> const& first,
                  k_means_options const& options) {
  options.check();
  detail::expect(!rows.empty() && rows.features() != 0, "k_means: there must be rows and features");
  detail::expect(!first.empty() && first.size() % rows.features() == 0,
                 "k_means: first centres must have a number for each feature");
  for (double const x : first) detail::expect(std::isfinite(x), "k_means: first centres must be finite");
  stage_options stage = options.stage;
  stage.iterations = options.clocks;
  stage_ref const s = t.stage(std::move(stage), k_means_clocks<Real>(rows, first, options.batch));
  t.run(s);
  return s;
}

/// The centres that a task has come to. @param first those that it began with
template <std::floating_point Real>
[[nodiscard]] std::vector<double> k_means_centres(k_means_task<Real> const& t, std::vector<double> const& first) {
  return k_means_centres(std::span<Real const>(t.template parameters<0>()),
                         std::span<std::int64_t const>(t.template parameters<1>()), first);
}

}  // namespace rubato::algorithm
