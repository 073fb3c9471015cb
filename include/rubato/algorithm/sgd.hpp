// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/algorithm/batch_part.hpp"
#include "rubato/algorithm/feature_rarity.hpp"
#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/core/table.hpp"
#include "rubato/data/dataset.hpp"
#include "rubato/model/linear.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/task/task.hpp"

namespace rubato::algorithm {

/// A part of a training with SGD in which batches are of one size: a stage.
struct sgd_phase {
  std::size_t batch = 1;        ///< rows of a step, shared out among the workers; at least 1
  std::int64_t iterations = 0;  ///< steps; 0: one scan of the data
  double rate = 0.1;            ///< η, of the batch's mean gradient; above 0
  /// Degree, protocol, search and so on; its iterations and cleared tables are the algorithm's.
  stage_options stage{};

  /// @throws option_error naming the option and what was expected
  void check() const {
    detail::expect(batch >= 1, "sgd: batch must be at least 1 row");
    detail::expect(iterations >= 0, "sgd: iterations must be 0, for one scan, or at least 1");
    detail::expect(rate > 0 && std::isfinite(rate), "sgd: rate must be finite and above 0");
    detail::expect_unset(stage, "sgd: stage");
  }
};

/// What the workers of a phase do, for `task::stage`: table 0 is w, a row for each feature. In iteration i
/// each pulls w, takes its part of batch i of a scan of the rows, pushes −η times its share of the batch's
/// mean gradient, regulariser and all, and commits. Under BSP M workers do what one would do, up to rounding.
///
/// Where keys are exchanged the regulariser moves only coordinates that occur, by rarity times as much
/// (`feature_rarity`): in the mean over batches the step is that of the whole exchange.
/// A worker's `step` is priced at the stored values of its part, and the coordinates where all are exchanged.
///
/// Immutable: workers share it, in whatever threads. Source: 004 §3, §7.2.
template <model::row_loss Loss, std::floating_point Real = float>
class sgd_steps {
 public:
  /// @param rows in random order; @param rarity of their features, if keys are exchanged
  /// @param first the batch of iteration 0, in the scan
  sgd_steps(model::linear_model<Loss, Real> model, data::dataset rows, std::size_t batch, double rate,
            exchange how, feature_rarity rarity = {}, std::int64_t first = 0)
      : loss_(model),
        rows_(std::move(rows)),
        batch_(batch),
        rate_(rate),
        l2_(static_cast<Real>(model.l2)),
        how_(how),
        rarity_(std::move(rarity)),
        first_(first) {
    loss_.l2 = 0;
  }

  template <class Worker>
  void operator()(Worker& worker, iteration_range todo) const {
    data::batch_range const batches = rows_.rows().batches(batch_);
    std::vector<Real> w, room;
    for (std::int64_t const i : todo) {
      batch_part<Real> const part(batches.at_step(static_cast<std::size_t>(first_ + i)), worker.rank(), worker.count(),
                                  how_, rarity_, detail::rows_mean(rows_.size(), batches.size()));
      part.pull(worker[table<0>], w);
      auto const share = static_cast<Real>(part.share());
      auto const rate = static_cast<Real>(-rate_);
      part.push_in_place(worker[table<0>], room, [&](std::span<Real> step) {
        loss_.gradient(part.rows(), w, step);
        for (std::size_t j = 0; j < step.size(); ++j)
          step[j] = rate * (share * step[j] + part.weight(j) * l2_ * w[j]);
      });
      worker.step(part.work());
    }
  }

 private:
  model::linear_model<Loss, Real> loss_;  ///< without the regulariser
  data::dataset rows_;
  std::size_t batch_;
  double rate_;
  Real l2_;
  exchange how_;
  feature_rarity rarity_;
  std::int64_t first_;
};

/// A task for SGD: its table is w.
template <std::floating_point Real = float>
using sgd_task = task<dense<Real, sum>>;

/// @param features rows of the table, those of the data @param init where w begins, or nothing for zeros
template <std::floating_point Real = float>
[[nodiscard]] sgd_task<Real> make_sgd_task(std::size_t features, std::span<Real const> init = {}) {
  return sgd_task<Real>(dense<Real, sum>{.rows = features, .init = init});
}

/// Appends SGD in phases to what a task does, a stage for each phase; batches may grow from phase to phase.
/// Each goes on in the scan of the rows where the phase before has ended; where none of its batches begins there, with
/// the one that has that row, so that none is left out.
///
///     auto t = algorithm::make_sgd_task(rows.features());
///     algorithm::sgd(t, model, rows, {{.batch = 100, .rate = 1, .stage = {.workers = 4}},
///                                     {.batch = 1000, .rate = 2, .stage = {.workers = automatic}}});
///     engine.submit(t).wait();
///     use(t.parameters());
///
/// @param model its regulariser counts, and its loss @param rows in random order; kept by the task
/// @throws option_error naming the option and what was expected
/// Source: 004 §3 (batches that grow), §7.2 (in three phases).
template <model::row_loss Loss, std::floating_point Real>
std::vector<stage_ref> sgd(sgd_task<Real>& t, model::linear_model<Loss, Real> const& model,
                           data::dataset const& rows, std::vector<sgd_phase> const& phases,
                           exchange how = exchange::whole) {
  model.check();
  detail::expect(!rows.empty(), "sgd: there must be rows to train on");
  for (sgd_phase const& p : phases) p.check();
  feature_rarity const rarity = how == exchange::by_key ? feature_rarity(rows) : feature_rarity();
  std::vector<stage_ref> stages;
  std::size_t seen = 0;  // rows of the scan that is under way
  for (sgd_phase const& p : phases) {
    stage_options o = p.stage;
    std::int64_t const scan = detail::steps_of_scan(rows.size(), p.batch);
    o.iterations = p.iterations != 0 ? p.iterations : scan;
    auto const first = static_cast<std::int64_t>(seen / p.batch);
    // A scan's last batch may be short, so batches count, and not rows.
    seen = static_cast<std::size_t>((first + o.iterations % scan) % scan) * p.batch;
    stages.push_back(
        t.stage(std::move(o), sgd_steps<Loss, Real>(model, rows, p.batch, p.rate, how, rarity, first)));
    t.run(stages.back());
  }
  return stages;
}

}  // namespace rubato::algorithm
