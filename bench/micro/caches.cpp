// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What the caches of 001 §3 take, before anybody asks a server.

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "bench/micro/table.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/worker/process_cache.hpp"

namespace rubato::bench {
namespace {

constexpr std::size_t width = 100;
constexpr std::uint64_t hot_rows = 64;  // in the processor's cache

/// A walk over the hot rows.
class walk {
 public:
  std::uint64_t next() noexcept { return at_ = (at_ * 5 + 13) % hot_rows; }

 private:
  std::uint64_t at_ = 1;
};

template <class Table, class F>
void on_worker(benchmark::State& state, Table const& t, F measure) {
  cluster c{in_process{}, ssp{.staleness = 3}, t};
  c.run([&](auto& worker) { measure(state, worker); });
}

void bench_thread_cache(benchmark::State& state) {
  on_worker(state, dense<float>{.rows = 1000, .width = width}, [](benchmark::State& s, auto& worker) {
    std::array<float, width> out{};
    std::vector<key> all;
    for (std::uint64_t k = 0; k < hot_rows; ++k) all.push_back(key{k});
    std::vector<float> rows(hot_rows * width);
    worker.pull(all, rows);
    walk hot;
    for (auto _ : s) {
      std::array<key, 1> const row{key{hot.next()}};
      worker.pull(row, out);
      benchmark::DoNotOptimize(out);
    }
  });
}

/// The same copy without the library.
void bench_row_copy(benchmark::State& state) {
  std::vector<float> rows(hot_rows * width);
  std::array<float, width> out{};
  walk hot;
  for (auto _ : state) {
    std::memcpy(out.data(), rows.data() + hot.next() * width, sizeof out);
    benchmark::DoNotOptimize(out);
  }
}

/// Answers at once, with zeros.
class near_server final : public detail::server_fetcher {
 public:
  void ask(detail::server_fetch& f) override {
    f.slot.stamp = {.server_clock = f.read.clock, .included = f.read.clock};
    f.slot.values.resize_bytes(f.slot.rows.size() * width * sizeof(float));
    f.done(refusal::none);
  }
  void ask_in_turn(detail::server_fetch&) override {}
  void withdraw_all() override {}
};

/// A question of a worker for one row, which its process has.
void bench_process_cache(benchmark::State& state) {
  blueprint const plan(ssp{.staleness = 3}, 1, {describe(dense<float>{.rows = 1000, .width = width})});
  near_server servers;
  detail::process_cache cache(plan, servers);
  cache.begin_stage();
  detail::inquiry asked;
  std::size_t const reader = cache.enlist(asked, worker_id{0}, clock_index{0});
  read_slot slot;
  slot.asked = selection::rows;
  read_header const read{.from = {worker_id{0}, {}, {}}, .clock = clock_index{0}, .bound = staleness{3}};
  for (std::uint64_t k = 0; k < hot_rows; ++k) slot.rows.push_back(k);
  cache.request(reader, server_id{0}, 0, read, slot);
  slot.rows.resize(1);
  walk hot;
  for (auto _ : state) {
    slot.rows[0] = hot.next();
    cache.request(reader, server_id{0}, 0, read, slot);
    if (!slot.by_process) state.SkipWithError("a server was asked");
    benchmark::DoNotOptimize(slot.values.data());
  }
}

void bench_add(benchmark::State& state) {
  on_worker(state, dense<std::int32_t, sum>{.rows = 1000}, [](benchmark::State& s, auto& worker) {
    std::array<std::int32_t, 1> const one{1};
    walk hot;
    for (auto _ : s) worker.push(std::array{key{hot.next()}}, one);
  });
}

}  // namespace

std::vector<micro_row> register_caches() {
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("memcpy of a row of 100", bench_row_copy);
  RegisterBenchmark("pull 1 row of 100 (thread cache)", bench_thread_cache);
  RegisterBenchmark("read 1 row of 100 (process cache)", bench_process_cache);
  RegisterBenchmark("add to 1 element", bench_add);
  return {{"pull 1 row of 100 (thread cache)", "memcpy of a row of 100", 0, "", "<= 50 ns"},
          {"read 1 row of 100 (process cache)", "memcpy of a row of 100", 0, "", "<= 150 ns"},
          {"add to 1 element", "", 0, "", "<= 20 ns"}};
}

}  // namespace rubato::bench
