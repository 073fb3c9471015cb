// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// How close the simulator is to the machine: the same small runs in threads of this process, and in a scenario that is
// measured there. Two workers, since each needs a core to itself; one of them 1, 2 and 4 times as slow, by sleeping.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/workloads.hpp"
#include "bench/result/text.hpp"
#include "bench/train/protocols.hpp"

namespace rubato::bench {
namespace {

constexpr std::uint32_t workers = 2;
constexpr std::array levels = {1.0, 2.0, 4.0};
constexpr std::array<char const*, 5> protocols = {"bsp", "ssp:3", "asp", "con_sgd:3", "k_async:1"};
constexpr int rounds = 7;

training job_of(workload const& work, reproduce_options const& options) {
  training job;
  job.work = &work;
  job.workers = workers;
  job.servers = 1;
  job.batch = 0.05;
  job.steps_per_commit = 1;
  job.clocks = options.clocks.value_or(200);
  job.points = 20;
  job.seed = job.scenario.seed = options.seed;
  job.scenario.speed.heterogeneity.slow_fraction = 0.5;
  return job;
}

/// The same cluster, as the simulator is told of it: what a stored value and an exchange took in threads.
sim::scenario measured(training job) {
  job.transport = transport_kind::in_process;
  std::vector<double> per_value, per_exchange;
  protocol_choice const asp = parse_protocols(std::array<std::string, 1>{"asp"}, {}).front();
  for (int i = 0; i < rounds; ++i) {
    run_result const r = asp.run(job);
    double const values = static_cast<double>(job.work->train().nonzeros()) / workers * job.batch;
    per_value.push_back(r.compute_seconds / (values * static_cast<double>(r.steps)));
    per_exchange.push_back((r.send_seconds + r.wait_seconds) / static_cast<double>(r.updates));
  }
  std::ranges::sort(per_value);
  std::ranges::sort(per_exchange);
  sim::scenario s = job.scenario;
  s.speed.work_cost = duration(1);  // durations are whole nanoseconds, so the rest of it is slowness
  s.speed.slowness.assign(workers, 1e9 * per_value[rounds / 2]);
  s.network.worker_link.latency = seconds(per_exchange[rounds / 2] / 2);
  return s;
}

/// Of several equal runs.
struct medians {
  double seconds = 0, waiting = 0, loss = 0;
};

medians run(protocol_choice const& p, training const& job) {
  std::vector<double> seconds, waiting, loss;
  for (int i = 0; i < (job.transport == transport_kind::simulated ? 1 : rounds); ++i) {
    run_result const r = p.run(job);
    seconds.push_back(r.seconds);
    waiting.push_back(r.wait_seconds / (r.compute_seconds + r.send_seconds + r.wait_seconds));
    loss.push_back(r.final_loss);
  }
  auto const middle = [](std::vector<double>& all) {
    std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
    return all[all.size() / 2];
  };
  return {middle(seconds), middle(waiting), middle(loss)};
}

/// @return the greatest error of a time, as a share of it
double compare_at(double level, training job, sim::scenario const& as_measured, text_table& table) {
  double worst = 0;
  for (protocol_choice const& p :
       parse_protocols(std::vector<std::string>(protocols.begin(), protocols.end()), {})) {
    job.scenario = as_measured;
    job.scenario.speed.heterogeneity.level = level;
    job.transport = transport_kind::in_process;
    medians const real = run(p, job);
    job.transport = transport_kind::simulated;
    medians const simulated = run(p, job);
    double const ratio = simulated.seconds / real.seconds;
    worst = std::max(worst, std::abs(ratio - 1));
    table.rows.push_back({fmt::format("{:g}", level), p.label(), show_seconds(real.seconds),
                          show_seconds(simulated.seconds), show_ratio(ratio), show_share(real.waiting),
                          show_share(simulated.waiting), show_number(real.loss), show_number(simulated.loss)});
  }
  return worst;
}

}  // namespace

void reproduce_simulator(reproduce_options const& options) {
  workloads_by_seed data(load_data({.rows = 40'000}, options.seed), {.model = model_kind::lr});
  training const job = job_of(data.with_seed(options.seed), options);
  sim::scenario const here = measured(job);
  fmt::print(
      "The simulator beside this machine: LR on {}, {} workers in threads, {} clocks of a mini-batch of {:g}%. Measured "
      "here: {:.2f} ns for a stored value, {} for an exchange. Times are those of the whole run, in threads the medians "
      "of {}.\n\n",
      data.name(), workers, job.clocks, 100 * job.batch, here.speed.slowness.front(),
      show_seconds(2 * to_seconds(here.network.worker_link.latency)), rounds);
  text_table table{.head = {"HL", "", "machine", "simulator", "ratio", "waiting", "simulated", "loss", "simulated"},
                   .rows = {}};
  double worst = 0;
  for (double const level : levels) worst = std::max(worst, compare_at(level, job, here, table));
  fmt::print("{}", table.to_string());
  fmt::print("\nVirtual time is wall time within {:.0f}%.\n", 100 * worst);
}

}  // namespace rubato::bench
