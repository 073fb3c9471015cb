// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Events per second of the simulator without user compute.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>

#include "bench/micro/table.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t events_wanted = 1'000'000;
constexpr std::uint64_t clocks_least = 10;  // of which starting and ending a hundred thousand workers is a part

/// Of this process, in bytes.
std::uint64_t memory_now() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (std::uint64_t kilobytes = 0; word == "VmRSS:" && status >> kilobytes) return kilobytes * 1024;
  throw std::runtime_error("/proc/self/status has no VmRSS");
}

/// By the number of workers, in the last run that had so many.
std::map<std::uint32_t, std::uint64_t> memory_at_the_end;

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
  std::uint64_t const clocks = std::max(events_wanted / workers / 3 + 1, clocks_least);
  for (auto _ : state) {
    auto const start = std::chrono::steady_clock::now();
    run_report const r = c.run([clocks, workers](auto& worker) {
      std::array<float, 10> w{};
      std::array<float, 10> const u{1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
      for (std::uint64_t i = 0; i < clocks; ++i) {
        worker.pull(w);
        worker.push(u);
        worker.step();
      }
      if (worker.rank() + 1 == workers) memory_at_the_end[workers] = memory_now();  // most others are still there
    });
    std::chrono::duration<double> const taken = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(taken.count() / static_cast<double>(r.events));
  }
}

}  // namespace

std::vector<micro_row> register_simulator() {
  std::vector<micro_row> rows;
  for (std::int64_t const workers : {100, 1'000, 10'000, 100'000}) {
    std::string const name = fmt::format("simulator event, {} workers", workers);
    std::string const aim = workers == 100      ? ">= 1M/s"
                            : workers < 100'000 ? ">= 1M/s, <= 4x"
                                                : ">= 0.5M/s";
    benchmark::RegisterBenchmark(name.c_str(), bench_events)
        ->Arg(workers)
        ->UseManualTime()
        ->Iterations(1);
    rows.push_back({name, workers == 100 ? "" : "simulator event, 100 workers", 1, "events", aim});
  }
  return rows;
}

void print_simulator_memory() {
  constexpr std::uint64_t most = std::uint64_t{2} << 30;
  for (auto const& [workers, bytes] : memory_at_the_end)
    if (workers == 100'000)
      fmt::print("{:<44} {:>7.1f} MB         {:.1f} KB a worker{:<33} <= {} MB\n",
                 fmt::format("simulator memory, {} workers", workers), static_cast<double>(bytes) / 1048576.0,
                 static_cast<double>(bytes) / 1024.0 / workers, "", most >> 20);
}

}  // namespace rubato::bench
