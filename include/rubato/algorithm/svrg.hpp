// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "rubato/algorithm/feature_rarity.hpp"
#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/algorithm/svrg_options.hpp"
#include "rubato/algorithm/svrg_stages.hpp"
#include "rubato/data/dataset.hpp"
#include "rubato/model/linear.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/task/task.hpp"

namespace rubato::algorithm {

/// A task for SVRG: its first table is w, see svrg_stages.hpp for the others.
template <std::floating_point Real = float>
using svrg_task =
    task<dense<Real, sum>, dense<Real, sum>, dense<Real, sum>, dense<Real, sum>, dense<std::int64_t, sum>>;

/// @param features rows of the tables, those of the data; the servers hold four numbers for each
/// @param init where w begins, or nothing for zeros
template <std::floating_point Real = float>
[[nodiscard]] svrg_task<Real> make_svrg_task(std::size_t features, std::span<Real const> init = {}) {
  dense<Real, sum> const zeros{.rows = features};
  return svrg_task<Real>(dense<Real, sum>{.rows = features, .init = init}, zeros, zeros, zeros,
                         dense<std::int64_t, sum>{.rows = 1});
}

/// The stages of SVRG in a task, by whose numbers its report can be read.
struct svrg_stages {
  stage_ref full_gradient;  ///< computes μ at the anchor
  stage_ref small_steps;  ///< goes on from the last iterate
};

/// Appends SVRG to what a task does: in each epoch a full gradient, then small steps from where the last
/// epoch has ended. With `svrg_options::plus_plus()` it is SVRG++. The last iterate is in `parameters()`.
///
///     auto t = algorithm::make_svrg_task(rows.features());
///     algorithm::svrg(t, model, rows, {.epochs = 5, .batch = 16, .rate = 2,
///                                      .full_gradient = {.workers = 16},
///                                      .small_steps = {.workers = automatic, .protocol = ssp{.staleness =
///                                      2}}});
///     engine.submit(t).wait();
///     use(t.parameters());
///
/// Call it once for a task: its epochs are counted from the task's first. For a smooth loss; with the hinge
/// it takes subgradients, for which no rate of convergence is known.
/// Workers share out the rows of a full gradient by rank, so none may join it: its body throws usage_error.
/// @param model its regulariser counts, and its loss @param rows in random order; kept by the task
/// @throws option_error naming the option and what was expected
/// Cost: with `exchange::by_key` O(stored values) beforehand. Source: 004 §3 Alg. 1, §4.
template <model::row_loss Loss, std::floating_point Real>
svrg_stages svrg(svrg_task<Real>& t, model::linear_model<Loss, Real> const& model, data::dataset const& rows,
                 svrg_options const& options) {
  options.check();
  model.check();
  detail::expect(!rows.empty(), "svrg: there must be rows to train on");
  detail::expect(static_cast<std::size_t>(options.slices) <= std::numeric_limits<std::size_t>::max() / rows.size(),
                 "svrg: slices must be at most 2^64 - 1 over the number of rows");
  detail::expect(options.most_steps(rows.size()) < 1e15,
                 "svrg: growth makes too many steps of the last epoch");
  feature_rarity rarity = options.how == exchange::by_key ? feature_rarity(rows) : feature_rarity();
  stage_options full = options.full_gradient;
  full.iterations = options.slices;
  full.cleared = {1, 2};
  stage_options steps = options.small_steps;
  steps.iterations = options.steps_in(0, rows.size());
  steps.cleared = {3};
  svrg_stages const s{
      t.stage(std::move(full), svrg_full_gradient<Loss, Real>(model, rows, options)),
      t.stage(std::move(steps), svrg_small_steps<Loss, Real>(model, rows, options, std::move(rarity)))};
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    t.run(s.full_gradient);
    t.run(s.small_steps, options.steps_in(epoch, rows.size()));
  }
  return s;
}

}  // namespace rubato::algorithm
