// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/train/result_of.hpp"
#include "bench/train/run_peers.hpp"
#include "bench/train/timeline_recorder.hpp"
#include "bench/train/timing.hpp"
#include "bench/train/training.hpp"
#include "rubato/core/clock.hpp"
#include "rubato/data/view.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/model/heavy_ball.hpp"
#include "rubato/model/learning_rate.hpp"
#include "rubato/peer/peer.hpp"

/// What peers of a measured run do, and what becomes of it, whatever carries them.
namespace rubato::bench {

/// The part of a result that says what was run.
[[nodiscard]] inline run_result describe_peers(training const& job, std::string_view protocol, staleness s) {
  run_result r = describe(job, protocol, s);
  r.servers = 0;
  r.storage = "dense";
  return r;
}

[[nodiscard]] inline time_split split_of(peer_metrics const& m) {
  return {.compute = to_seconds(m.compute), .wait = to_seconds(m.wait())};
}

/// Where a peer is.
[[nodiscard]] inline moment moment_of(peer<float> const& self, std::int64_t iteration) {
  return {.worker = self.rank(),
          .clock = iteration,
          .seconds = to_seconds(self.now().since_start()),
          .spent = split_of(self.metrics())};
}

/// Fills in what was measured.
inline void fill_in(run_result& r, training const& job, peer_report const& report,
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
    r.profile.push_back({.spent = spent, .steps = p.iterations, .commits = p.iterations});
  }
  r.bytes_received = r.bytes_sent;  // by each other
  r.counted_split = {.compute = r.compute_seconds, .wait = r.wait_seconds};
  fill_in_curve(r, job, peer_updates_in_clock(job), std::move(curve));
}

/// The training body of a peer: `train` without a server. Those that jump go on with their next
/// mini-batch: by the iteration's number, jumps of a whole pass would meet the same one for ever.
/// `stepped(steps so far)` is called after each step, and `computed()` when its gradient is there.
template <class Stepped, class Computed>
void train_peer(peer<float>& self, training const& job, Stepped stepped, Computed computed) {
  mini_batches const batches(job, self.rank());
  model::decayed_rate const rate{.sigma = job.learning_rate, .alpha = job.decay};
  std::vector<float> delta(job.work->parameters());
  model::heavy_ball<float> momentum(job.momentum, job.momentum > 0 ? delta.size() : 0);
  std::size_t step = 0;
  for (std::int64_t const k : self.iterations(job.local_steps())) {
    if (job.watcher != nullptr) {  // its update has gone out, in Hop's parallel order
      job.watcher->worked(moment_of(self, k));
      job.watcher->begins_clock(moment_of(self, k));
    }
    data::dataset_view const batch = batches.at_step(step++);
    double const eta = rate(clock_index(job.passes_after(k)));
    job.work->local_step(batch, eta, self.parameters(), delta);
    if (job.momentum > 0) momentum.apply(delta);
    computed();
    self.step(delta, static_cast<double>(batch.nonzeros()));
    if (job.watcher != nullptr) job.watcher->has_read(moment_of(self, k));
    stepped(step);
  }
}

}  // namespace rubato::bench
