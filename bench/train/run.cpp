// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/run.hpp"

#include <utility>

#include <fmt/format.h>

#include "bench/application/application.hpp"
#include "bench/train/result_of.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/time.hpp"
#include "rubato/protocol/pace.hpp"

namespace rubato::bench {
namespace {

run_result run_application(server_run const& what, run_result r) {
  if (what.storage == storage_kind::multi_version || !what.length.clocks)
    throw option_error(fmt::format("--workload {}: expected a protocol that adds commits up and sends them after as "
                                   "many steps each time, not {}",
                                   what.job.app->name(), what.protocol.name));
  if (has_processes(what.job.transport))
    throw option_error(
        fmt::format("--workload {}: expected --transport simulated or in-process", what.job.app->name()));
  return what.job.app->run(what.protocol, what.job, std::move(r));
}

run_result run(server_run const& what) {
  run_result r = describe(what.job, what.protocol.name, what.protocol.admission.bound());
  r.storage = what.storage == storage_kind::multi_version ? "multi_version" : "dense";
  if (what.job.app != nullptr) return run_application(what, std::move(r));
  switch (what.job.transport) {
    case transport_kind::simulated:
      return run_simulated(what, std::move(r));
    case transport_kind::in_process:
      return run_in_process(what, std::move(r));
    case transport_kind::mpi:
      return over_mpi().run(what, std::move(r));
    case transport_kind::tcp:
      break;
  }
  return run_across_processes(what, std::move(r));
}

}  // namespace

mpi_job& over_mpi() {
  static mpi_job job;
  return job;
}

run_result run_every(rules const& p, std::int64_t steps, training const& job, storage_kind storage) {
  return run({.protocol = with(p, every{steps}),
              .job = job,
              .length = {.clocks = (job.local_steps() + steps - 1) / steps},
              .storage = storage});
}

run_result run_protocol(rules const& p, training const& job, storage_kind storage) {
  return run_every(p, job.steps_per_commit, job, storage);
}

run_result run_at_own_pace(rules const& p, training const& job) {
  return run({.protocol = p, .job = job, .length = {}, .storage = storage_kind::dense});
}

run_result describe(training const& job, std::string_view protocol, staleness s) {
  bool const simulating = job.transport == transport_kind::simulated;
  run_result r;
  r.protocol = protocol;
  r.transport = name_of(job.transport);
  r.workload = job.app != nullptr ? job.app->name() : job.work->name();
  r.workers = job.workers;
  r.servers = job.servers;
  if (s != staleness::infinite()) r.staleness = s.clocks();
  r.heterogeneity = job.scenario.speed.heterogeneity.level;
  r.learning_rate = job.learning_rate;
  r.seed = job.seed;
  r.time_kind = simulating ? "virtual" : "wall";
  r.target = job.target;
  return r;
}

void fill_in(run_result& r, training const& job, run_report const& report,
             std::vector<curve_point> curve) {
  r.seconds = to_seconds(report.elapsed);
  r.updates = report.updates;
  r.seconds_per_update = r.updates == 0 ? 0 : r.seconds / static_cast<double>(r.updates);
  worker_metrics const total = report.total();
  r.compute_seconds = to_seconds(total.compute);
  r.wait_seconds = to_seconds(total.wait);
  r.send_seconds = to_seconds(total.send);
  r.counted_split = {r.compute_seconds, r.send_seconds, r.wait_seconds};
  r.bytes_sent = total.bytes_sent;
  r.bytes_received = total.bytes_received;
  r.steps = total.steps;
  r.requests = total.requests;
  r.process_hits = total.process_hits;
  r.staleness_histogram.assign(total.staleness.begin(), total.staleness.end());
  r.versions_peak = report.versions_peak;
  for (worker_metrics const& w : report.workers)
    r.profile.push_back({.spent = {to_seconds(w.compute), to_seconds(w.send), to_seconds(w.wait)},
                         .steps = w.steps,
                         .commits = w.commits});
  r.implicit_momentum = report.implicit_momentum();
  for (pace_change const& c : report.pace_changes)
    r.pace_changes.push_back({to_seconds(c.at.since_start()), c.value, c.reason});
  fill_in_curve(r, job, job.workers, std::move(curve));
}

void fill_in_curve(run_result& r, training const& job, std::uint64_t updates_in_clock,
                   std::vector<curve_point> curve) {
  r.curve = std::move(curve);
  r.final_loss = r.curve.back().loss;
  end_of_run const end = last_five_clocks(r.curve);
  r.min_obj = end.min_obj;
  r.var_obj = end.var_obj;
  if (!job.target) return;
  if (auto const reached =
          reaches(r.curve, *job.target, updates_in_clock * static_cast<std::uint64_t>(job.clocks_at_target))) {
    r.seconds_to_target = reached->seconds;
    r.updates_to_target = reached->updates;
    r.steps_to_target = reached->steps;
    r.counted_split = reached->spent;
    r.clocks_to_target = (reached->updates + updates_in_clock - 1) / updates_in_clock;
  }
}

void fill_in_parameters(run_result& r, training const& job, std::vector<float> const& parameters) {
  r.accuracy = job.work->accuracy(parameters);
  r.parameters = parameters;
}

}  // namespace rubato::bench
