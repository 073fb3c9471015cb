// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Devices that differ threefold in speed, behind slow links. Under BSP all wait for the slowest in
// each step; under ADSP nobody waits: who is faster trains more between commits, and how often
// everybody commits is searched for while training goes on. The body is the same.
#include <chrono>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <string>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

constexpr std::size_t dimensions = 20;
constexpr double target = 1e-3;

double squared_distance(std::vector<float> const& w) {
  double sum = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    double const off = w[i] - static_cast<double>(i);
    sum += off * off;
  }
  return sum;
}

/// A noisy gradient step towards (0, 1, 2, ...).
void local_step(std::vector<float> const& w, std::vector<float>& delta, rb::random_stream& random) {
  for (std::size_t i = 0; i < w.size(); ++i) {
    auto const noise = static_cast<float>(random.uniform() - 0.5);
    delta[i] = -0.02F * (w[i] - static_cast<float>(i) + 0.01F * noise);
  }
}

template <rb::protocol Protocol>
void train(Protocol p) {
  rb::simulated const devices{.workers = 3,
                              .scenario = {.speed = {.work_cost = 1s, .slowness = {1, 1, 3}},
                                           .network = {.worker_link = {.latency = 200ms}}}};
  rb::cluster cluster{devices, p, rb::dense<float>{.rows = dimensions}};
  auto const body = [&](auto& worker) {
    std::vector<float> w(dimensions), delta(dimensions);
    while (squared_distance(cluster.observe()) > target) {
      worker.pull(w);
      local_step(w, delta, worker.random());
      worker.push(delta);
      worker.step();
    }
  };
  rb::run_report const report = cluster.run(body, squared_distance);

  rb::worker_metrics const all = report.total();
  std::printf("%-15s %4.0f s, %3.0f%% of them training; %4llu steps, %4llu commits\n",
              std::string(rb::name_of(p)).c_str(), rb::to_seconds(report.elapsed),
              100 * rb::to_seconds(all.compute) / rb::to_seconds(all.total()),
              static_cast<unsigned long long>(all.steps),
              static_cast<unsigned long long>(all.commits));
  for (rb::pace_change const& c : report.pace_changes)
    std::printf("  from %4.0f s on: %lld (%s)\n", rb::to_seconds(c.at.since_start()),
                static_cast<long long>(c.value), c.reason.c_str());
}

int main() {
  train(rb::bsp{});
  train(rb::fixed_ada_comm{.steps = 10});
  train(rb::ada_comm{.first_steps = 20, .interval = 100s});
  train(rb::adsp{.check_period = 60s, .epoch = 20min, .probe_period = 120s});
}
