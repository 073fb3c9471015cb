// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rubato/algorithm/batch_part.hpp"
#include "rubato/algorithm/feature_rarity.hpp"
#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/algorithm/svrg_anchor.hpp"
#include "rubato/algorithm/svrg_options.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/random.hpp"
#include "rubato/core/table.hpp"
#include "rubato/data/dataset.hpp"
#include "rubato/model/linear.hpp"
#include "rubato/task/stage.hpp"

namespace rubato::algorithm {

// The tables of SVRG, each with a row for each feature but the last:
// 0: w. 1: the anchor x̃. 2: μ, the loss's full gradient there, without the regulariser, which steps take at
// w. 3: by how much w is ahead of the mean of the epoch's iterates; 0 where anchors are last iterates. 4: one
// row, the epochs that have begun.

/// What the workers do that compute a full gradient, for `task::stage`; tables 1 and 2 begin at zero. Each
/// takes its part of the rows of its iterations, and commits once.
///
/// Immutable: workers share it. Memory while it runs: a copy of the worker's rows where keys are exchanged.
/// Source: 004 Alg. 1, line 2.
template <model::row_loss Loss, std::floating_point Real = float>
class svrg_full_gradient {
 public:
  /// @param model whose loss is summed up @param rows all of them @param options as checked
  svrg_full_gradient(model::linear_model<Loss, Real> model, data::dataset rows, svrg_options const& options)
      : loss_(model),
        rows_(std::move(rows)),
        slices_(static_cast<std::size_t>(options.slices)),
        how_(options.how),
        snapshot_(options.snapshot) {
    loss_.l2 = 0;
  }

  template <class Worker>
  void operator()(Worker& worker, iteration_range todo) const {
    detail::expect_not_joined(worker, "svrg");
    std::int64_t const slice = *todo.begin();
    std::size_t const first = end_of_slices(slice), last = end_of_slices(slice + todo.size());
    data::dataset_view const mine =
        rows_.rows().slice(first, last - first).shard(worker.rank(), worker.count());
    auto const share =
        static_cast<Real>(static_cast<double>(mine.size()) / static_cast<double>(rows_.size()));
    if (how_ == exchange::whole) {
      std::vector<Real> const x = anchor(worker);
      worker[table<2>].push_in_place([&](std::span<Real> gradient) { write_scaled(mine, share, x, gradient); });
      if (slice == 0) keep_anchor(worker, x);
    } else {
      data::compact_batch const local = data::compact(mine);
      std::vector<Real> here(local.keys.size());
      {
        std::vector<Real> const x = anchor(worker);
        std::ranges::transform(local.keys, here.begin(), [&](key k) { return x[k.index()]; });
        if (slice == 0) keep_anchor(worker, x);
      }
      std::vector<Real> gradient(here.size());
      write_scaled(local.rows, share, here, gradient);
      worker[table<2>].push(local.keys, gradient);
    }
    worker.step(static_cast<double>(mine.nonzeros() + (how_ == exchange::whole ? rows_.features() : 0)));
  }

 private:
  /// The rows of so many slices.
  [[nodiscard]] std::size_t end_of_slices(std::int64_t slices) const {
    return rows_.size() * static_cast<std::size_t>(slices) / slices_;
  }

  /// The point at which the gradient is taken.
  template <class Worker>
  [[nodiscard]] std::vector<Real> anchor(Worker& worker) const {
    std::vector<Real> x(rows_.features());
    worker[table<0>].pull(x);
    if (snapshot_ == svrg_snapshot::last) return x;
    std::vector<Real> ahead(x.size());
    worker[table<3>].pull(ahead);
    for (std::size_t j = 0; j < x.size(); ++j) x[j] -= ahead[j];
    return x;
  }

  /// Each worker writes its part of the anchor, so that no card carries all of it.
  template <class Worker>
  void keep_anchor(Worker& worker, std::vector<Real> const& x) const {
    std::size_t const first = x.size() * worker.rank() / worker.count();
    std::size_t const last = x.size() * (worker.rank() + std::size_t{1}) / worker.count();
    std::vector<key> keys;
    for (std::size_t j = first; j < last; ++j) keys.emplace_back(j);
    worker[table<1>].push(keys, std::span(x).subspan(first, last - first));
    if (worker.rank() == 0) worker[table<4>].push(std::vector<std::int64_t>{1});
  }

  void write_scaled(data::dataset_view rows, Real share, std::vector<Real> const& x, std::span<Real> gradient) const {
    loss_.gradient(rows, x, gradient);
    for (Real& g : gradient) g *= share;
  }

  model::linear_model<Loss, Real> loss_;  ///< without the regulariser
  data::dataset rows_;
  std::size_t slices_;
  exchange how_;
  svrg_snapshot snapshot_;
};

/// What the workers do that make the small steps, for `task::stage`; table 3 begins at zero. A step is on one
/// of the batches that the rows are cut into, drawn at random, the same for all workers: each pulls w, and
/// pushes its share of −η (∇f_batch(w) − ∇f_batch(x̃) + μ). Under BSP M workers do what one would do, up to
/// rounding.
///
/// Where keys are exchanged μ and the regulariser move only coordinates that occur, by rarity times as much
/// (`feature_rarity`), so that the step's mean over all batches is the full gradient as well.
/// A worker's `step` is priced at the stored values of its part twice, and the coordinates where all are
/// exchanged.
///
/// Immutable: workers share it. Source: 004 Alg. 1, lines 3 to 7. Restricted to what occurs, as in sparse
/// SAGA: Leblond, Pedregosa and Lacoste-Julien, "ASAGA", AISTATS 2017.
template <model::row_loss Loss, std::floating_point Real = float>
class svrg_small_steps {
 public:
  /// @param rarity of the rows' features, if keys are exchanged
  svrg_small_steps(model::linear_model<Loss, Real> model, data::dataset rows, svrg_options const& options,
                   feature_rarity rarity = {})
      : loss_(model),
        l2_(static_cast<Real>(model.l2)),
        rows_(std::move(rows)),
        options_(options),
        rarity_(std::move(rarity)) {
    loss_.l2 = 0;
  }

  template <class Worker>
  void operator()(Worker& worker, iteration_range todo) const {
    std::vector<std::int64_t> begun(1);
    worker[table<4>].pull(begun);
    auto const steps = static_cast<double>(options_.steps_in(begun[0] - 1, rows_.size()));
    double const rows_mean = detail::rows_mean(rows_.size(), rows_.rows().batches(options_.batch).size());
    svrg_anchor<Real> anchor;
    std::vector<Real> w, step;
    for (std::int64_t const i : todo) {
      batch_part<Real> const part(batch(begun[0], i), worker.rank(), worker.count(), options_.how, rarity_, rows_mean);
      part.pull(worker[table<0>], w);
      anchor.look_up(worker, part);
      write_step(part, w, anchor, step);
      part.push(worker[table<0>], step);
      if (options_.snapshot == svrg_snapshot::mean) {
        // Of m iterates that come after m steps, step i is missing in the first i: their mean lacks i/m of
        // it.
        for (Real& s : step) s *= static_cast<Real>(static_cast<double>(i) / steps);
        part.push(worker[table<3>], step);
      }
      worker.step(2 * part.work());
    }
  }

  /// The batch of step i of an epoch, counted from 1.
  [[nodiscard]] data::dataset_view batch(std::int64_t epoch, std::int64_t i) const {
    data::batch_range const batches = rows_.rows().batches(options_.batch);
    random_stream draw(options_.seed, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(i));
    return batches[static_cast<std::size_t>(draw.below(batches.size()))];
  }

  /// What a worker adds to the part's coordinates of w. `step` gets their number.
  void write_step(batch_part<Real> const& part, std::vector<Real> const& w, svrg_anchor<Real> const& anchor,
                  std::vector<Real>& step) const {
    step.resize(part.size());
    std::vector<Real> there(part.size());
    loss_.gradient(part.rows(), w, step);
    loss_.gradient(part.rows(), anchor.point(), there);
    auto const share = static_cast<Real>(part.share());
    auto const rate = static_cast<Real>(-options_.rate);
    for (std::size_t j = 0; j < step.size(); ++j)
      step[j] = rate * (share * (step[j] - there[j]) + part.weight(j) * (anchor.gradient()[j] + l2_ * w[j]));
  }

 private:
  model::linear_model<Loss, Real> loss_;  ///< without the regulariser
  Real l2_;
  data::dataset rows_;
  svrg_options options_;
  feature_rarity rarity_;
};

}  // namespace rubato::algorithm
