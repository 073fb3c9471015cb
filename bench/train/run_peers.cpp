// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/run_peers.hpp"

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "bench/train/peer_body.hpp"
#include "bench/train/recorder.hpp"
#include "bench/train/result_of.hpp"
#include "bench/train/run.hpp"
#include "bench/train/timeline_recorder.hpp"
#include "bench/train/timing.hpp"
#include "rubato/cluster/peer_group.hpp"
#include "rubato/peer/topologies.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench {

training job_of_peers(training const& job) {
  training own = job;
  if (job.transport == transport_kind::mpi && over_mpi().ranks > 1) own.workers = over_mpi().ranks - 1;
  return own;
}

std::uint64_t peer_updates_in_clock(training const& job) {
  return static_cast<std::uint64_t>(job.steps_per_commit) * job.workers;
}

graph peer_graph(training const& job, protocol_parameters const& with) {
  return parse_graph(with.peers.graph, job.workers);
}

sim::scenario peer_scenario(training const& job) {
  sim::scenario s = job.scenario;
  s.server_delay.clear();
  s.server_machine_of.clear();
  s.one_process_per_machine = false;
  return s;
}

namespace {

template <class Group>
run_result measure_peers(Group& group, training const& job, run_result r) {
  recorder curve(job, peer_updates_in_clock(job));
  remembered_objective objective(*job.work);
  std::atomic<std::uint64_t> updates = 0;
  auto const observe = [&] { return objective.of(group.observe()); };
  auto const look = [&] {
    std::uint64_t const made = updates.load(std::memory_order_relaxed);
    double const now = to_seconds(group.now().since_start());
    if (curve.due(now, made) && curve.look(now, made, observe)) group.stop();
  };
  // The simulator can look at every event; threads look when they have made a step.
  constexpr bool simulating = requires { group.runtime().on_event(look); };
  if constexpr (simulating) group.runtime().on_event(look);
  peer_report const report = group.run([&](peer<float>& self) {
    train_peer(self, job, [&](std::size_t steps) {
      updates.fetch_add(1, std::memory_order_relaxed);
      curve.note(self.rank(), steps, split_of(self.metrics()));
      if constexpr (!simulating) look();
    }, [] {});
  });
  auto const parameters = group.parameters();
  fill_in(r, job, report,
          curve.finish(to_seconds(report.elapsed), report.iterations(), objective(parameters)));
  fill_in_parameters(r, job, parameters);
  return r;
}

}  // namespace

run_result run_peers(peer_rules const& p, std::string_view name, staleness s, training const& given,
                     protocol_parameters const& with) {
  training const job = job_of_peers(given);
  graph const among = peer_graph(job, with);
  std::vector<float> const start(job.start().begin(), job.start().end());
  run_result r = describe_peers(job, name, s);
  if (job.transport == transport_kind::simulated) {
    // There each may wait for any.
    bool const by_graph = name != "all_reduce" && name != "push_sum" && name != "prague";
    if (job.watcher != nullptr && by_graph) job.watcher->among(among);
    peer_group g{simulated{.workers = job.workers, .scenario = peer_scenario(job)}, among, p,
                 plain_step{}, start};
    return measure_peers(g, job, std::move(r));
  }
  if (job.transport == transport_kind::mpi) return over_mpi().run_peers(p, among, job, std::move(r));
  if (job.transport == transport_kind::tcp) return run_peers_across_processes(p, among, job, std::move(r));
  peer_group g{
      in_process{.workers = job.workers, .slowness = slowness_of(job), .seed = job.seed}, among, p,
      plain_step{}, start};
  return measure_peers(g, job, std::move(r));
}

}  // namespace rubato::bench
