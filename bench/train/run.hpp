// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "bench/processes/cluster.hpp"
#include "bench/processes/train.hpp"
#include "bench/result/run_result.hpp"
#include "bench/train/body.hpp"
#include "bench/train/recorder.hpp"
#include "bench/train/result_of.hpp"
#include "bench/train/timing.hpp"
#include "bench/train/training.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/core/error.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/simulated.hpp"

// Heavy to instantiate: each protocol has a source file of its own that includes this.

namespace rubato::bench {

/// Who of the workers of the beginning has done its part of a run that ends for all at once.
class common_end {
 public:
  explicit common_end(training const& job) : done_(job.workers), steps_(job.local_steps()) {}

  /// A worker is about to read. Returns whether all that are left have done their part.
  template <class Cluster, class Worker>
  [[nodiscard]] bool reached(Cluster const& cluster, Worker const& worker) {
    if (worker.steps_since_commit() != 0) return false;
    if (worker.rank() < done_.size() &&
        worker.metrics().steps >= static_cast<std::uint64_t>(steps_))
      done_[worker.rank()].store(true, std::memory_order_relaxed);
    bool all = true;
    cluster.servers().server(server_id{0}).inspect([&](auto const& control) {
      for (std::uint32_t i = 0; all && i < done_.size(); ++i)
        all = done_[i].load(std::memory_order_relaxed) || !control.workers().contains(worker_id{i});
    });
    return all;
  }

 private:
  std::vector<std::atomic<bool>> done_;
  std::int64_t steps_;
};

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

template <class Cluster>
[[nodiscard]] run_result measure(Cluster& cluster, training const& job, run_length const& length,
                                 run_result r) {
  recorder curve(job);
  auto const look = [&] {
    std::uint64_t const updates = whole_updates(cluster);
    double const now = to_seconds(cluster.now().since_start());
    if (curve.due(now, updates) && curve.look(now, updates, [&] { return cluster.observe(); }))
      cluster.stop();
  };
  // The simulator can look at every event; threads look when they have committed.
  constexpr bool simulating = requires { cluster.runtime().on_event(look); };
  if constexpr (simulating) cluster.runtime().on_event(look);
  common_end end(job);
  auto const body = [&](auto& worker) {
    auto const go_on = [&] { return !length.clocks || worker.clock().value() < *length.clocks; };
    auto const watch = [&](std::vector<float> const& w) {
      if (!length.clocks && end.reached(cluster, worker)) cluster.stop();
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
          curve.finish(to_seconds(report.elapsed), whole_updates(cluster), parameters), parameters);
  return r;
}

/// The model's parameters, in one copy. Valid as long as the workload is.
[[nodiscard]] inline dense<float> dense_table(training const& job) {
  return {.rows = job.work->parameters(), .init = job.start()};
}

/// One run of `p` across processes.
template <protocol Protocol, table_spec Table>
[[nodiscard]] run_result run_across_processes(Protocol const& p, training const& job,
                                              run_length const& length, Table const& table,
                                              run_result r) {
  if constexpr (runs_across_processes<Protocol, Table>) {
    auto const make = [&](net::deployment const& place) {
      return make_process_cluster(place, job.seed, rules_of(p), table);
    };
    return train_across_processes(make, job, length, std::move(r));
  } else {
    throw option_error(r.protocol + ": does not run on --transport tcp with these options");
  }
}

/// One run of `p` at its own pace, with the parameters in `table`.
template <protocol Protocol, table_spec Table>
[[nodiscard]] run_result run_as_it_is(Protocol const& p, training const& job,
                                      run_length const& length, Table const& table) {
  run_result r = describe(job, name_of(p), p.admission().bound());
  r.storage = versioned_table<Table> ? "multi_version" : "dense";
  if (job.transport == transport_kind::simulated) {
    cluster c{simulated{.workers = job.workers, .servers = job.servers, .scenario = job.scenario},
              p, table};
    return measure(c, job, length, std::move(r));
  }
  if (job.transport == transport_kind::tcp)
    return run_across_processes(p, job, length, table, std::move(r));
  cluster c{in_process{.workers = job.workers,
                       .servers = job.servers,
                       .slowness = slowness_of(job),
                       .seed = job.seed},
            p, table};
  return measure(c, job, length, std::move(r));
}

/// One run of `p` that commits after every `steps`-th local step.
template <protocol Protocol, table_spec Table>
[[nodiscard]] run_result run_every(Protocol const& p, std::int64_t steps, training const& job,
                                   Table const& table) {
  run_length const length{.clocks = (job.local_steps() + steps - 1) / steps};
  return run_as_it_is(with(p, every{steps}), job, length, table);
}

/// One run of `p` at the job's pace.
template <protocol Protocol, table_spec Table>
[[nodiscard]] run_result run_protocol(Protocol const& p, training const& job, Table const& table) {
  return run_every(p, job.steps_per_commit, job, table);
}
template <protocol Protocol>
[[nodiscard]] run_result run_protocol(Protocol const& p, training const& job) {
  return run_protocol(p, job, dense_table(job));
}

/// One run of `p`, whose pace decides when workers commit, until the slowest has done its part.
template <protocol Protocol>
[[nodiscard]] run_result run_at_own_pace(Protocol const& p, training const& job) {
  return run_as_it_is(p, job, {}, dense_table(job));
}

}  // namespace rubato::bench
