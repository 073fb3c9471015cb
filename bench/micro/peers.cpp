// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Peers without a server: what a step costs in process, beside axpy on the bytes that it must move,
// and how long a thousand of them take in the simulator.

#include <chrono>
#include <thread>
#include <vector>

#include "bench/micro/table.hpp"
#include "rubato/cluster/peer_group.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/peer/topologies.hpp"
#include "rubato/storage/arithmetic.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench {
namespace {

using std::chrono::milliseconds;
using wall_clock = std::chrono::steady_clock;

constexpr std::size_t million = 1'000'000;
constexpr std::uint32_t ring_size = 4;
constexpr std::int64_t steps = 50;

double seconds_since(wall_clock::time_point start) {
  return std::chrono::duration<double>(wall_clock::now() - start).count();
}

/// As many threads as peers, each with parameters of its own. A peer on a ring reads the gradient, its
/// own parameters and those of two neighbors, and writes new ones: five arrays of a million. axpy moves
/// three times the length that it is given.
void bench_axpy_of_same_bytes(benchmark::State& state) {
  constexpr std::size_t n = 5 * million / 3;
  std::vector<std::vector<float>> from(ring_size, std::vector<float>(n, 1.0F)), to = from;
  for (auto _ : state) {
    std::vector<std::thread> threads;
    auto const start = wall_clock::now();
    for (std::uint32_t t = 0; t < ring_size; ++t)
      threads.emplace_back([&, t] {
        for (std::int64_t k = 0; k < steps; ++k) {
          detail::add_scaled(to[t].data(), from[t].data(), n, 0.5);
          benchmark::ClobberMemory();
        }
      });
    for (std::thread& t : threads) t.join();
    state.SetIterationTime(seconds_since(start) / steps);
  }
}

void bench_ring(benchmark::State& state) {
  peer_group group{in_process{}, ring(ring_size), hop(), sgd{.rate = 1e-6},
                   std::vector<float>(million)};
  std::vector<float> const gradient(million, 1.0F);
  std::vector<std::vector<float>> const gradients(ring_size, gradient);
  for (auto _ : state) {
    auto const report = group.run([&](auto& peer) {
      for ([[maybe_unused]] auto k : peer.iterations(steps)) peer.step(gradients[peer.rank()]);
    });
    state.SetIterationTime(to_seconds(report.elapsed) / static_cast<double>(steps));
  }
}

/// A hundred iterations of 10,000 parameters on a ring-based graph; an iteration of the benchmark is
/// the whole run.
void bench_thousand_peers(benchmark::State& state) {
  constexpr std::uint32_t peers = 1000;
  constexpr std::size_t parameters = 10'000;
  sim::scenario scenario;
  scenario.speed = {.work_cost = milliseconds(1),
                    .random_slowdown = sim::random_slowdown::hop(peers)};
  scenario.network.worker_link.bandwidth = 125'000'000;
  std::vector<float> const gradient(parameters, 0.01F);
  for (auto _ : state) {
    peer_group group{simulated{.scenario = scenario}, ring_based(peers),
                     hop(gather_all_but{.backups = 1}, token_queues{4}),
                     sgd{.rate = 0.1, .momentum = 0.9}, std::vector<float>(parameters, 1.0F)};
    group.run([&](auto& peer) {
      for ([[maybe_unused]] auto k : peer.iterations(100)) peer.step(gradient);
    });
  }
}

}  // namespace

std::vector<micro_row> register_peers() {
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("4 threads, axpy, bytes of a step", bench_axpy_of_same_bytes)
      ->UseManualTime()
      ->Iterations(1);
  RegisterBenchmark("step of 1M floats, ring of 4", bench_ring)->UseManualTime()->Iterations(1);
  RegisterBenchmark("1000 peers, 100 iterations of 10k", bench_thousand_peers)->Iterations(1);
  constexpr double bytes = 4 * 5 * 4e6;
  return {{"4 threads, axpy, bytes of a step", "", bytes, "B", ""},
          {"step of 1M floats, ring of 4", "4 threads, axpy, bytes of a step", bytes, "B", "<= 2"},
          {"1000 peers, 100 iterations of 10k", "", 0, "", "<= 60 s"}};
}

}  // namespace rubato::bench
