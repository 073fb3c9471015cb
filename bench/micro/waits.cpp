// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Threads that wait for each other in every round, with little to do between, beside a barrier of as many.

#include <fmt/core.h>

#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "bench/micro/table.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/cluster/peer_group.hpp"
#include "rubato/peer/all_reduce.hpp"
#include "rubato/peer/peer_rules.hpp"
#include "rubato/peer/topologies.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/in_process.hpp"

namespace rubato::bench {
namespace {

using waiting_clock = std::chrono::steady_clock;

constexpr std::int64_t waits = 5000;
constexpr std::size_t few_floats = 1000;

double seconds_of_a_wait(waiting_clock::time_point start) {
  return std::chrono::duration<double>(waiting_clock::now() - start).count() / static_cast<double>(waits);
}

void bench_barrier(benchmark::State& state, std::uint32_t count) {
  for (auto _ : state) {
    std::barrier meet(static_cast<std::ptrdiff_t>(count));
    std::vector<std::thread> threads;
    auto const start = waiting_clock::now();
    for (std::uint32_t i = 0; i < count; ++i)
      threads.emplace_back([&meet] {
        for (std::int64_t k = 0; k < waits; ++k) meet.arrive_and_wait();
      });
    for (auto& t : threads) t.join();
    state.SetIterationTime(seconds_of_a_wait(start));
  }
}

void bench_waiting_workers(benchmark::State& state, std::uint32_t count) {
  for (auto _ : state) {
    cluster c{in_process{.workers = count}, bsp{}, dense<float>{.rows = few_floats}};
    auto const start = waiting_clock::now();
    c.run([](auto& worker) {
      std::vector<float> w(few_floats);
      std::vector<float> const u(few_floats, 1e-3F);
      for (std::int64_t k = 0; k < waits; ++k) {
        worker.pull(w);
        worker.push(u);
        worker.step();
      }
    });
    state.SetIterationTime(seconds_of_a_wait(start));
  }
}

void bench_waiting_peers(benchmark::State& state, std::uint32_t count) {
  for (auto _ : state) {
    peer_group group{in_process{}, ring(count), peer_rules(all_reduce{}), plain_step{}, std::vector<float>(few_floats)};
    auto const start = waiting_clock::now();
    group.run([](auto& peer) {
      std::vector<float> const step(few_floats, 1e-3F);
      for ([[maybe_unused]] std::int64_t const k : peer.iterations(waits)) peer.step(step);
    });
    state.SetIterationTime(seconds_of_a_wait(start));
  }
}

}  // namespace

std::vector<micro_row> register_waits() {
  std::vector<micro_row> rows;
  for (std::uint32_t const count : {2U, 4U}) {
    std::string const of_threads = fmt::format(" of {} threads", count);
    auto const add = [&](std::string const& name, std::string const& beside, auto bench) {
      benchmark::RegisterBenchmark((name + of_threads).c_str(), bench, count)->UseManualTime()->Iterations(1);
      rows.push_back({name + of_threads, beside.empty() ? "" : beside + of_threads, 0, "", ""});
    };
    add("barrier", "", bench_barrier);
    add("clock of 1000 floats, bsp,", "barrier", bench_waiting_workers);
    add("all_reduce of 1000 floats,", "barrier", bench_waiting_peers);
  }
  return rows;
}

}  // namespace rubato::bench
