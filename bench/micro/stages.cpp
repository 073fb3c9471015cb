// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The change from one stage of a task to the next, as FlexPS measures it (§7.4): from the slowest worker's end
// of its work to the moment when all workers of the next stage have begun; beside making and joining as many
// threads that do nothing.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "bench/micro/table.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/task/engine.hpp"
#include "rubato/transport/in_process.hpp"

namespace rubato::bench {
namespace {

using wall_clock = std::chrono::steady_clock;

constexpr std::uint32_t workers = 100;
constexpr int changes = 20;

void bench_threads(benchmark::State& state) {
  for (auto _ : state) {
    auto const start = wall_clock::now();
    for (int i = 0; i < changes; ++i) {
      std::vector<std::thread> threads;
      for (std::uint32_t w = 0; w < workers; ++w) threads.emplace_back([] {});
      for (auto& t : threads) t.join();
    }
    state.SetIterationTime(std::chrono::duration<double>(wall_clock::now() - start).count() / changes);
  }
}

/// When the last of those who have come by did so.
class last_moment {
 public:
  void pass() {
    wall_clock::rep const now = wall_clock::now().time_since_epoch().count();
    for (wall_clock::rep seen = at_; seen < now && !at_.compare_exchange_weak(seen, now);) {
    }
  }
  [[nodiscard]] wall_clock::rep count() const noexcept { return at_; }

 private:
  std::atomic<wall_clock::rep> at_ = 0;
};

void bench_changes(benchmark::State& state) {
  for (auto _ : state) {
    std::vector<last_moment> began(changes + 1), ended(changes + 1);
    engine e{in_process{.workers = workers}};
    task t{dense<float>{.rows = 1000}};
    for (std::size_t i = 0; i <= changes; ++i) {
      rules const protocol = i % 2 == 0 ? rules(bsp{}) : rules(ssp{.staleness = 2});
      t.run(t.stage({.workers = workers, .protocol = protocol}, [&, i](auto& worker) {
        began[i].pass();
        std::vector<float> w(1000);
        worker.pull(w);
        worker.push(w);
        worker.step();
        ended[i].pass();
      }));
    }
    (void)e.submit(t).wait();
    wall_clock::rep sum = 0;
    for (std::size_t i = 1; i <= changes; ++i) sum += began[i].count() - ended[i - 1].count();
    state.SetIterationTime(std::chrono::duration<double>(wall_clock::duration(sum)).count() / changes);
  }
}

}  // namespace

std::vector<micro_row> register_stages() {
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("100 threads, made and joined", bench_threads)->UseManualTime()->Iterations(1);
  RegisterBenchmark("change of stage, 100 workers", bench_changes)->UseManualTime()->Iterations(1);
  return {{"100 threads, made and joined", "", 0, "", ""},
          {"change of stage, 100 workers", "100 threads, made and joined", 0, "", "<= 10 ms"}};
}

}  // namespace rubato::bench
