// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bench/result/run_result.hpp"
#include "bench/train/recorder.hpp"
#include "bench/train/training.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/model/learning_rate.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/simulated.hpp"

// Heavy to instantiate: each protocol has a source file of its own that includes this.

namespace rubato::bench {

/// Where a worker's time went so far: what was neither sending nor waiting was computing.
[[nodiscard]] inline time_split split_of(worker_metrics const& m, duration all) {
  return {.compute = to_seconds(all - m.send - m.wait),
          .send = to_seconds(m.send),
          .wait = to_seconds(m.wait)};
}

/// The training body, the same in every transport (000 Alg. 1): each local step is one mini-batch
/// on the worker's replica. A step's work is its non-zeros, so that the price of a unit carries
/// over from one data set to another. `pulled(parameters)` is called after each pull, and
/// `committed(time split)` after each commit.
template <class Worker, class Pulled, class Committed>
void train(Worker& worker, training const& job, Pulled pulled, Committed committed) {
  data::dataset_view const shard =
      job.work->train().shard(worker.rank() % job.workers, job.workers);
  data::batch_range const batches = shard.batches(data::fraction{job.batch});
  model::decayed_rate const rate{.sigma = job.learning_rate, .alpha = job.decay};
  std::vector<float> w(job.work->features()), delta(job.work->features());
  time_point const began = worker.now();
  for (std::size_t step = 0; worker.clock().value() < job.clocks; ++step) {
    data::dataset_view const batch = batches.at_step(step);
    worker.pull(w);
    pulled(w);
    job.work->local_step(batch, rate(worker.clock()), w, delta);
    worker.push(delta);
    if (worker.step(static_cast<double>(batch.nonzeros())))
      committed(split_of(worker.metrics(), worker.now() - began));
  }
}

/// The updates that have reached every server: a point of the curve counts no half update.
template <class Cluster>
[[nodiscard]] std::uint64_t whole_updates(Cluster const& cluster) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t s = 0; s < cluster.servers().servers(); ++s)
    cluster.servers().server(server_id{s}).inspect([&](auto const& control) {
      least = std::min(least, control.counters().commits);
    });
  return least;
}

/// How many times as long each worker of an in-process run takes.
[[nodiscard]] inline std::vector<double> slowness_of(training const& job) {
  std::vector<double> slowness(job.workers, 1.0);
  auto const& h = job.scenario.speed.heterogeneity;
  std::fill_n(slowness.rbegin(), static_cast<std::ptrdiff_t>(h.slow_workers(job.workers)), h.level);
  return slowness;
}

/// The part of a result that says what was run.
[[nodiscard]] run_result describe(training const& job, std::string_view protocol, staleness s);
/// Fills in what was measured.
void fill_in(run_result& r, training const& job, run_report const& report,
             std::vector<curve_point> curve, std::vector<float> const& parameters);

template <class Cluster>
[[nodiscard]] run_result measure(Cluster& cluster, training const& job, run_result r) {
  recorder curve(job);
  auto const look = [&] {
    std::uint64_t const updates = whole_updates(cluster);
    if (curve.due(updates) && curve.look(to_seconds(cluster.now().since_start()), updates,
                                         [&] { return cluster.observe(); }))
      cluster.stop();
  };
  // The simulator can look at every event; threads look when they have committed.
  constexpr bool simulating = requires { cluster.runtime().on_event(look); };
  if constexpr (simulating) cluster.runtime().on_event(look);
  run_report const report = cluster.run([&](auto& worker) {
    auto const watch = [&](std::vector<float> const& w) {
      if (!simulating || !job.watch_reads || worker.rank() != 0) return;
      // A clock's first read shows what its predecessor came to.
      if (static_cast<std::size_t>(worker.clock().value()) > r.read_losses.size())
        r.read_losses.push_back(job.work->objective(w));
    };
    train(worker, job, watch, [&](time_split const& spent) {
      curve.note(worker.rank(), spent);
      if constexpr (!simulating) look();
    });
  });
  auto const& parameters = cluster.parameters();
  fill_in(r, job, report,
          curve.finish(to_seconds(report.elapsed), whole_updates(cluster), parameters), parameters);
  return r;
}

/// The model's parameters, in one copy.
[[nodiscard]] inline dense<float> dense_table(training const& job) {
  return {.rows = job.work->features()};
}

/// One run of `protocol` at the job's pace, with the parameters in `table`.
template <protocol Protocol, table_spec Table>
[[nodiscard]] run_result run_protocol(Protocol const& p, training const& job, Table const& table) {
  auto const paced = with(p, every{job.steps_per_commit});
  run_result r = describe(job, name_of(p), p.admission().bound());
  r.storage = versioned_table<Table> ? "multi_version" : "dense";
  if (job.transport == transport_kind::simulated) {
    cluster c{simulated{.workers = job.workers, .servers = job.servers, .scenario = job.scenario},
              paced, table};
    return measure(c, job, std::move(r));
  }
  cluster c{in_process{.workers = job.workers,
                       .servers = job.servers,
                       .slowness = slowness_of(job),
                       .seed = job.seed},
            paced, table};
  return measure(c, job, std::move(r));
}

template <protocol Protocol>
[[nodiscard]] run_result run_protocol(Protocol const& p, training const& job) {
  return run_protocol(p, job, dense_table(job));
}

}  // namespace rubato::bench
