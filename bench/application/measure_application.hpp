// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <tuple>
#include <utility>

#include "bench/application/application.hpp"
#include "bench/application/watched_worker.hpp"
#include "bench/train/body.hpp"
#include "bench/train/measure.hpp"
#include "bench/train/recorder.hpp"
#include "bench/train/timing.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench {

/// Runs an application on a cluster in this process, and fills in what was measured. `Run` is the state of one run:
///
/// - `start()`: the curve's `curve_start`;
/// - `body(worker)`: what a worker does;
/// - `committed(rank, count)`: what that worker has pushed so far is committed, or will be as its body has ended;
///   called in its thread. What it has beside the tables and others may look at is noted here;
/// - `observe(cluster)`: an `evaluation` of the tables, and of what was noted; called in any worker's thread;
/// - `accuracy(cluster)`: see `application::run`.
template <class Cluster, class Run>
[[nodiscard]] run_result measure_application_on(Cluster& cluster, Run& run, training const& job, run_result r) {
  training counted = job;
  counted.clocks = job.app->commits(job);
  recorder curve(counted, job.workers, run.start());
  auto const look = looking_at(cluster, curve, [&] { return run.observe(cluster); });
  if constexpr (is_simulated<Cluster>) cluster.runtime().on_event(look);
  run_report const report = cluster.run([&](typename Cluster::worker_type& worker) {
    time_point const began = worker.now();
    watched_worker watched(worker, [&] {
      run.committed(worker.rank(), worker.count());
      curve.note(worker.rank(), worker.metrics().steps, split_of(worker.metrics(), worker.now() - began));
      if constexpr (!is_simulated<Cluster>) look();
    });
    run.body(watched);
    run.committed(worker.rank(), worker.count());
  });
  double const loss = run.observe(cluster)();
  fill_in(r, job, report, curve.finish(to_seconds(report.elapsed), whole_updates(cluster.servers()), loss));
  r.accuracy = run.accuracy(cluster);
  return r;
}

/// The same on a cluster of `run.tables()`, a tuple, in the job's transport.
template <class Run>
[[nodiscard]] run_result measure_application(Run& run, rules const& p, training const& job, run_result r) {
  auto const on = [&](auto const& transport) {
    return std::apply(
        [&](auto const&... tables) {
          cluster c{transport, p, tables...};
          return measure_application_on(c, run, job, std::move(r));
        },
        run.tables());
  };
  if (job.transport == transport_kind::simulated)
    return on(simulated{.workers = job.workers, .servers = job.servers, .scenario = job.scenario});
  return on(in_process{
      .workers = job.workers, .servers = job.servers, .slowness = slowness_of(job), .seed = job.seed});
}

/// In how many sweeps of so many local steps each the job's are made, at least.
[[nodiscard]] inline std::int64_t sweeps_of(training const& job, std::uint32_t steps_per_sweep) {
  return (job.local_steps() + steps_per_sweep - 1) / steps_per_sweep;
}

}  // namespace rubato::bench
