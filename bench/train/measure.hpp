// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "bench/result/run_result.hpp"
#include "bench/train/body.hpp"
#include "bench/train/recorder.hpp"
#include "bench/train/result_of.hpp"
#include "bench/train/run.hpp"
#include "bench/train/training.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/server/server_group.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/multi_version.hpp"

namespace rubato::bench {

/// Who of the workers of the beginning has done its part of a run that ends for all at once.
class common_end {
 public:
  explicit common_end(training const& job) : done_(job.workers), steps_(job.local_steps()) {}

  /// A worker is about to read. Returns whether all that are left have done their part.
  [[nodiscard]] bool reached(server_group const& servers, training_worker const& worker);

 private:
  std::vector<std::atomic<bool>> done_;
  std::int64_t steps_;
};

/// The updates that have reached every server: a point of the curve counts no half update.
[[nodiscard]] std::uint64_t whole_updates(server_group const& servers);

/// Whether all workers of a cluster live in one thread, in virtual time.
template <class Cluster>
inline constexpr bool is_simulated =
    requires(Cluster& c) { c.runtime().on_event(std::function<void()>{}); };

/// A function that looks at a run where a look is due, and stops it where the curve's rule says so. The simulator
/// can call it at every event; threads call it when they have committed.
/// @param observe returns an `evaluation`
template <class Cluster, class Observe>
[[nodiscard]] auto looking_at(Cluster& cluster, recorder& curve, Observe observe) {
  return [&cluster, &curve, observe] {
    std::uint64_t const updates = whole_updates(cluster.servers());
    double const now = to_seconds(cluster.now().since_start());
    if (curve.due(now, updates) && curve.look(now, updates, observe)) cluster.stop();
  };
}

/// Runs the training body on a cluster in this process, and fills in what was measured.
template <class Cluster>
[[nodiscard]] run_result measure(Cluster& cluster, server_run const& what, run_result r) {
  training const& job = what.job;
  std::optional<std::int64_t> const& clocks = what.length.clocks;
  recorder curve(job);
  remembered_objective objective(*job.work);
  auto const look = looking_at(cluster, curve, [&] { return objective.of(cluster.observe()); });
  constexpr bool simulating = is_simulated<Cluster>;
  if constexpr (simulating) cluster.runtime().on_event(look);
  common_end end(job);
  auto const body = [&](training_worker& worker) {
    auto const go_on = [&] { return !clocks || worker.clock().value() < *clocks; };
    auto const watch = [&](std::vector<float> const& w) {
      if (!clocks && end.reached(cluster.servers(), worker)) cluster.stop();
      if (!simulating || !job.watch_reads || worker.rank() != 0) return;
      // A clock's first read shows what its predecessor came to.
      if (static_cast<std::size_t>(worker.clock().value()) > r.read_losses.size())
        r.read_losses.push_back(job.work->objective(w));
    };
    train(worker, job, go_on, watch, [&](time_split const& spent) {
      curve.note(worker.rank(), worker.metrics().steps, spent);
      if constexpr (!simulating) look();
    });
  };
  run_report const report = cluster.run(body, remembered_objective(*job.work));
  auto const& parameters = cluster.parameters();
  fill_in(r, job, report,
          curve.finish(to_seconds(report.elapsed), whole_updates(cluster.servers()), objective(parameters)));
  fill_in_parameters(r, job, parameters);
  return r;
}

/// The same on a cluster that is made of a transport.
template <class Transport>
[[nodiscard]] run_result measure_on(Transport const& where, server_run const& what, run_result r) {
  dense<float> const table = dense_table(what.job);
  if (what.storage == storage_kind::multi_version) {
    cluster c{where, what.protocol, multi_version{table}};
    return measure(c, what, std::move(r));
  }
  cluster c{where, what.protocol, table};
  return measure(c, what, std::move(r));
}

}  // namespace rubato::bench
