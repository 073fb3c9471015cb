// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "bench/application/application.hpp"
#include "bench/setup/edge.hpp"
#include "rubato/core/error.hpp"
#include "rubato/sim/speed.hpp"

namespace rubato::bench {
namespace {

std::size_t rows_of_a_batch(training const& job) {
  double const shard = static_cast<double>(job.work->train().size()) / job.workers;
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(shard * job.batch)));
}

/// The wall time of a step, as the median of a few.
double tried_step_seconds(training const& job) {
  constexpr std::size_t tries = 5;
  mini_batches const batches(job, 0);
  auto const w = job.work->initial();  // with zeros a network would be faster
  std::vector<float> delta(w.size());
  std::vector<double> took;
  for (std::size_t i = 0; i < tries; ++i) {
    auto const began = std::chrono::steady_clock::now();
    job.work->local_step(batches.at_step(i), 0.0, w, delta);
    took.push_back(to_seconds(std::chrono::steady_clock::now() - began));
  }
  std::ranges::nth_element(took, took.begin() + tries / 2);
  return took[tries / 2];
}

double simulated_step_seconds(training const& job) {
  if (job.app != nullptr) return job.app->step_work(job) * to_seconds(job.scenario.speed.work_cost);
  auto const row = static_cast<double>(job.work->train().nonzeros()) /
                   static_cast<double>(job.work->train().size());
  double const units = row * static_cast<double>(rows_of_a_batch(job));
  return units * to_seconds(job.scenario.speed.work_cost);
}

/// A commit and a pull carry all parameters once each way, over the worker's card and the servers'. What an application
/// carries differs from step to step, and is left out.
double simulated_exchange_seconds(training const& job) {
  sim::network_options const& n = job.scenario.network;
  if (job.app != nullptr) return 2 * to_seconds(n.worker_link.latency);
  auto const bytes = static_cast<double>(job.work->parameters() * sizeof(float));
  double per_byte = 0;
  if (n.worker_link.bandwidth != 0) per_byte = 1 / static_cast<double>(n.worker_link.bandwidth);
  if (n.server_bandwidth != 0)
    per_byte = std::max(per_byte, 1 / (static_cast<double>(n.server_bandwidth) * job.servers));
  return 2 * bytes * per_byte + 2 * to_seconds(n.worker_link.latency);
}

}  // namespace

std::vector<double> slowness_of(training const& job) {
  std::vector<double> slowness(job.workers, 1.0);
  if (job.transport == transport_kind::simulated) {
    sim::speed_model const speed(job.scenario.speed, job.workers);
    for (std::uint32_t i = 0; i < job.workers; ++i) slowness[i] = speed.slowness(worker_id(i), {});
    return slowness;
  }
  auto const& h = job.scenario.speed.heterogeneity;
  std::fill_n(slowness.rbegin(), static_cast<std::ptrdiff_t>(h.slow_workers(job.workers)), h.level);
  return slowness;
}

double timing::slowest_step() const { return std::ranges::max(step_seconds); }

timing timing_of(training const& job) {
  bool const simulating = job.transport == transport_kind::simulated;
  double const step = simulating ? simulated_step_seconds(job) : tried_step_seconds(job);
  timing t{.step_seconds = slowness_of(job),
           .exchange_seconds = simulating ? simulated_exchange_seconds(job) : 0};
  for (double& s : t.step_seconds) s *= step;
  return t;
}

mini_batches::mini_batches(training const& job, std::size_t rank)
    : shard_(job.work->train().shard(rank % job.workers, job.workers)),
      even_(shard_.batches(data::fraction{job.batch})) {
  if (job.shards.how == row_order::kind::all) {
    auto const in_a_shard = static_cast<std::size_t>(job.steps_of_a_pass());
    even_ = job.work->train().rows().batches(data::fraction{1.0 / static_cast<double>(in_a_shard * job.workers)});
    first_ = rank % job.workers * in_a_shard;
  }
  if (!job.batch_tune) return;
  std::vector<double> speeds = slowness_of(job);
  for (double& s : speeds) s = 1 / s;
  tuned_ = apportion(speeds, rows_of_a_batch(job) * job.workers)[rank % job.workers];
  if (tuned_ < 1 || tuned_ > shard_.size())
    throw option_error("--batch-tune: worker " + std::to_string(rank) + " is to take " +
                       std::to_string(tuned_) + " rows at a time and has " +
                       std::to_string(shard_.size()) + "; expected a " +
                       (tuned_ < 1 ? "greater" : "smaller") + " --batch");
}

data::dataset_view mini_batches::at_step(std::size_t step) const noexcept {
  if (tuned_ == 0) return even_.at_step(first_ + step);
  // The last one of a pass is as large as the others, so that the global batch stays the same.
  std::size_t const in_a_pass = (shard_.size() + tuned_ - 1) / tuned_;
  return shard_.slice(std::min(step % in_a_pass * tuned_, shard_.size() - tuned_), tuned_);
}

}  // namespace rubato::bench
