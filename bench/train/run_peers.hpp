// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/train/protocols.hpp"
#include "bench/train/recorder.hpp"
#include "bench/train/result_of.hpp"
#include "bench/train/timing.hpp"
#include "bench/train/training.hpp"
#include "rubato/cluster/peer_group.hpp"
#include "rubato/model/heavy_ball.hpp"
#include "rubato/model/learning_rate.hpp"
#include "rubato/peer/gap.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/in_process_peers.hpp"
#include "rubato/transport/simulated.hpp"
#include "rubato/transport/simulated_peers.hpp"

// Heavy to instantiate: each protocol has a source file of its own that includes this.

namespace rubato::bench {

// An update of a peer is an iteration: one mini-batch, and an exchange with its neighbors. So that
// protocols compare, peers make as many local steps as workers of servers do,
// `training::local_steps`; their rates decay after as many local steps; and a clock is as many
// updates as there are local steps in a clock of the others.

/// The updates that all peers together make in a clock.
[[nodiscard]] std::uint64_t peer_updates_in_clock(training const& job);
/// The graph that the peers of a job stand on. @throws option_error
[[nodiscard]] graph peer_graph(training const& job, protocol_parameters const& with);
[[nodiscard]] token_queues peer_tokens(protocol_parameters const& with);

/// The part of a result that says what was run.
[[nodiscard]] run_result describe_peers(training const& job, std::string_view protocol,
                                        staleness s);
/// Fills in what was measured.
void fill_in(run_result& r, training const& job, peer_report const& report,
             std::vector<curve_point> curve, std::vector<float> const& parameters);

/// The scenario as far as it concerns peers: there are no servers to be delayed.
[[nodiscard]] sim::scenario peer_scenario(training const& job);

[[nodiscard]] inline time_split split_of(peer_metrics const& m) {
  return {.compute = to_seconds(m.compute), .wait = to_seconds(m.wait())};
}

/// The training body of a peer: `train` without a server. Those that jump go on with their next
/// mini-batch: by the iteration's number, jumps of a whole pass would meet the same one for ever.
/// `stepped(steps so far)` is called after each step.
template <class Peer, class Stepped>
void train_peer(Peer& peer, training const& job, Stepped stepped) {
  mini_batches const batches(job, peer.rank());
  model::decayed_rate const rate{.sigma = job.learning_rate, .alpha = job.decay};
  std::vector<float> delta(job.work->parameters());
  model::heavy_ball<float> momentum(job.momentum, job.momentum > 0 ? delta.size() : 0);
  std::size_t step = 0;
  for (std::int64_t const k : peer.iterations(job.local_steps())) {
    data::dataset_view const batch = batches.at_step(step++);
    double const eta = rate(clock_index(k / job.steps_per_commit));
    job.work->local_step(batch, eta, peer.parameters(), delta);
    if (job.momentum > 0) momentum.apply(delta);
    peer.step(delta, static_cast<double>(batch.nonzeros()));
    stepped(step);
  }
}

template <class Group>
[[nodiscard]] run_result measure_peers(Group& group, training const& job, run_result r) {
  recorder curve(job, peer_updates_in_clock(job));
  std::atomic<std::uint64_t> updates = 0;
  auto const look = [&] {
    std::uint64_t const made = updates.load(std::memory_order_relaxed);
    double const now = to_seconds(group.now().since_start());
    if (curve.due(now, made) && curve.look(now, made, [&] { return group.observe(); }))
      group.stop();
  };
  // The simulator can look at every event; threads look when they have made a step.
  constexpr bool simulating = requires { group.runtime().on_event(look); };
  if constexpr (simulating) group.runtime().on_event(look);
  peer_report const report = group.run([&](auto& peer) {
    train_peer(peer, job, [&](std::size_t steps) {
      updates.fetch_add(1, std::memory_order_relaxed);
      curve.note(peer.rank(), steps, split_of(peer.metrics()));
      if constexpr (!simulating) look();
    });
  });
  auto const parameters = group.parameters();
  fill_in(r, job, report,
          curve.finish(to_seconds(report.elapsed), report.iterations(), parameters), parameters);
  return r;
}

/// One run of `p` among peers, whose parameters are looked at as their average.
/// @param s how many iterations old an update may be that a peer counts
template <class Protocol>
[[nodiscard]] run_result run_peers(Protocol const& p, std::string_view name, staleness s,
                                   training const& job, protocol_parameters const& with) {
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
