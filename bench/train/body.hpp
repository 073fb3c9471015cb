// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bench/result/run_result.hpp"
#include "bench/train/reassignment.hpp"
#include "bench/train/timeline_recorder.hpp"
#include "bench/train/timing.hpp"
#include "bench/train/training.hpp"
#include "rubato/core/time.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/metrics/worker_metrics.hpp"
#include "rubato/model/heavy_ball.hpp"
#include "rubato/model/learning_rate.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/worker/worker.hpp"

namespace rubato::bench {

/// What training bodies are given, whatever the transport and however servers keep the parameters.
using training_worker = worker<table_handle<float, true>>;

/// The model's parameters, in one copy. Valid as long as the workload is.
[[nodiscard]] inline dense<float> dense_table(training const& job) {
  return {.rows = job.work->parameters(), .init = job.start(), .filter = job.filter, .codec = job.codec};
}

/// Where a worker's time went so far: what was neither sending nor waiting was computing.
[[nodiscard]] inline time_split split_of(worker_metrics const& m, duration all) {
  return {.compute = to_seconds(all - m.send - m.wait),
          .send = to_seconds(m.send),
          .wait = to_seconds(m.wait)};
}

/// Where a worker is that began at that time.
template <class Worker>
[[nodiscard]] moment moment_of(Worker const& worker, time_point began) {
  time_point const now = worker.now();
  return {.worker = worker.rank(),
          .clock = worker.clock().value(),
          .seconds = to_seconds(now.since_start()),
          .spent = split_of(worker.metrics(), now - began)};
}

/// The training body, the same for every protocol and in every transport (000 Alg. 1): each local
/// step is one mini-batch on the worker's replica. A step's work is its non-zeros, so that the
/// price of a unit carries over from one data set to another. `go_on()` is asked before each step,
/// `pulled(parameters)` is called after each pull, and `committed(time split)` after each commit.
template <class Worker, class GoOn, class Pulled, class Committed>
void train(Worker& worker, training const& job, GoOn go_on, Pulled pulled, Committed committed) {
  mini_batches const batches(job, worker.rank());
  model::decayed_rate const rate{.sigma = job.learning_rate, .alpha = job.decay};
  std::vector<float> w(job.work->parameters());
  model::heavy_ball<float> momentum(job.momentum, job.momentum > 0 ? w.size() : 0);
  time_point const began = worker.now();
  std::int64_t const missed = worker.clock().value() * job.steps_per_commit;  // by one that joins later
  for (std::size_t step = 0; go_on(); ++step) {
    data::dataset_view const batch =
        job.reassigned != nullptr ? job.reassigned->at_step(worker.rank(), step) : batches.at_step(step);
    worker.pull(w);
    if (job.watcher != nullptr) job.watcher->has_read(moment_of(worker, began));
    pulled(w);
    std::int64_t const passes = job.passes_after(missed + static_cast<std::int64_t>(step));
    worker.push_in_place([&](std::span<float> delta) {
      job.work->local_step(batch, rate(clock_index(passes)), w, delta);
      if (job.momentum > 0) momentum.apply(delta);
    });
    bool const commits = worker.step(static_cast<double>(batch.nonzeros()));
    if (job.watcher != nullptr) {
      job.watcher->worked(moment_of(worker, began));
      job.watcher->begins_clock(moment_of(worker, began));
    }
    if (!commits) continue;
    time_split const spent = split_of(worker.metrics(), worker.now() - began);
    if (job.reassigned != nullptr) job.reassigned->ends_clock(worker.rank(), spent.compute + spent.send);
    committed(spent);
  }
}

/// How long workers train.
struct run_length {
  /// Commits of each worker, which then leaves; empty: all go on until the slowest of those that
  /// the run began with has made the job's local steps and is to begin another clock.
  std::optional<std::int64_t> clocks{};
};

/// Fills in what was measured, but for what is made of the parameters.
void fill_in(run_result& r, training const& job, run_report const& report,
             std::vector<curve_point> curve);

}  // namespace rubato::bench
