// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/run_peers.hpp"

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "bench/train/recorder.hpp"
#include "bench/train/result_of.hpp"
#include "bench/train/timing.hpp"
#include "rubato/cluster/peer_group.hpp"
#include "rubato/model/heavy_ball.hpp"
#include "rubato/model/learning_rate.hpp"
#include "rubato/peer/topologies.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench {

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

/// The part of a result that says what was run.
run_result describe_peers(training const& job, std::string_view protocol, staleness s) {
  run_result r = describe(job, protocol, s);
  r.servers = 0;
  r.storage = "dense";
  return r;
}

time_split split_of(peer_metrics const& m) {
  return {.compute = to_seconds(m.compute), .wait = to_seconds(m.wait())};
}

/// Fills in what was measured.
void fill_in(run_result& r, training const& job, peer_report const& report,
             std::vector<curve_point> curve) {
  r.seconds = to_seconds(report.elapsed);
  r.steps = r.updates = report.iterations();
  r.seconds_per_update = r.updates == 0 ? 0 : r.seconds / static_cast<double>(r.updates);
  for (peer_metrics const& p : report.peers) {
    time_split const spent = split_of(p);
    r.compute_seconds += spent.compute;
    r.wait_seconds += spent.wait;
    r.bytes_sent += p.bytes_sent;
    r.jumped_over += p.jumped_over;
  }
  r.bytes_received = r.bytes_sent;  // by each other
  r.counted_split = {.compute = r.compute_seconds, .wait = r.wait_seconds};
  fill_in_curve(r, job, peer_updates_in_clock(job), std::move(curve));
}

/// The training body of a peer: `train` without a server. Those that jump go on with their next
/// mini-batch: by the iteration's number, jumps of a whole pass would meet the same one for ever.
/// `stepped(steps so far)` is called after each step.
template <class Stepped>
void train_peer(peer<float>& self, training const& job, Stepped stepped) {
  mini_batches const batches(job, self.rank());
  model::decayed_rate const rate{.sigma = job.learning_rate, .alpha = job.decay};
  std::vector<float> delta(job.work->parameters());
  model::heavy_ball<float> momentum(job.momentum, job.momentum > 0 ? delta.size() : 0);
  std::size_t step = 0;
  for (std::int64_t const k : self.iterations(job.local_steps())) {
    data::dataset_view const batch = batches.at_step(step++);
    double const eta = rate(clock_index(k / job.steps_per_commit));
    job.work->local_step(batch, eta, self.parameters(), delta);
    if (job.momentum > 0) momentum.apply(delta);
    self.step(delta, static_cast<double>(batch.nonzeros()));
    stepped(step);
  }
}

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
    });
  });
  auto const parameters = group.parameters();
  fill_in(r, job, report,
          curve.finish(to_seconds(report.elapsed), report.iterations(), objective(parameters)));
  fill_in_parameters(r, job, parameters);
  return r;
}

}  // namespace

run_result run_peers(peer_rules const& p, std::string_view name, staleness s, training const& job,
                     protocol_parameters const& with) {
  graph const among = peer_graph(job, with);
  std::vector<float> const start(job.start().begin(), job.start().end());
  run_result r = describe_peers(job, name, s);
  if (job.transport == transport_kind::simulated) {
    peer_group g{simulated{.workers = job.workers, .scenario = peer_scenario(job)}, among, p,
                 plain_step{}, start};
    return measure_peers(g, job, std::move(r));
  }
  peer_group g{
      in_process{.workers = job.workers, .slowness = slowness_of(job), .seed = job.seed}, among, p,
      plain_step{}, start};
  return measure_peers(g, job, std::move(r));
}

}  // namespace rubato::bench
