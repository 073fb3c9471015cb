// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Events per second of the simulator without user compute.

#include <fmt/core.h>

#include <array>
#include <chrono>

#include "bench/micro/table.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t events_wanted = 1'000'000;

/// SSP on ten parameters, every step jittered so that the order of workers keeps changing: per clock
/// a step, a commit, and every few clocks a read and its answer. The time is divided by the events,
/// so an iteration is one event.
void bench_events(benchmark::State& state) {
  auto const workers = static_cast<std::uint32_t>(state.range(0));
  sim::scenario scenario;
  scenario.speed.work_cost = milliseconds(1);
  scenario.speed.jitter = sim::uniform{.low = 0.5, .high = 1.5};
  cluster c{simulated{.workers = workers, .servers = 1, .scenario = scenario}, ssp{.staleness = 3},
            dense<float>{.rows = 10}};
  std::uint64_t const clocks = events_wanted / workers / 3 + 1;
  for (auto _ : state) {
    auto const start = std::chrono::steady_clock::now();
    run_report const r = c.run([clocks](auto& worker) {
      std::array<float, 10> w{};
      std::array<float, 10> const u{1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
      for (std::uint64_t i = 0; i < clocks; ++i) {
        worker.pull(w);
        worker.push(u);
        worker.step();
      }
    });
    std::chrono::duration<double> const taken = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(taken.count() / static_cast<double>(r.events));
  }
}

}  // namespace

std::vector<micro_row> register_simulator() {
  std::vector<micro_row> rows;
  for (std::int64_t const workers : {100, 1'000, 10'000}) {
    std::string const name = fmt::format("simulator event, {} workers", workers);
    benchmark::RegisterBenchmark(name.c_str(), bench_events)
        ->Arg(workers)
        ->UseManualTime()
        ->Iterations(1);
    rows.push_back({name, workers == 100 ? "" : "simulator event, 100 workers", 1, "events",
                    workers == 100 ? ">= 1M/s" : ">= 1M/s, <= 5x"});
  }
  return rows;
}

}  // namespace rubato::bench
