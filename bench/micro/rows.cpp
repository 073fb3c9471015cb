// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// One row at a time with nobody else there.

#include <array>
#include <vector>

#include "bench/micro/table.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/transport/in_process.hpp"

namespace rubato::bench {
namespace {

constexpr std::size_t rows_count = 1 << 16;
constexpr int batch = 256;  // operations per commit: a clock in which many rows are touched

template <class F>
void on_worker(benchmark::State& state, F measure) {
  cluster c{in_process{}, asp{}, dense<float>{.rows = rows_count}, sparse<float>{}};
  c.run([&](auto& worker) { measure(state, worker); });
}

/// A walk over all rows in no order that a prefetcher knows.
class walk_over_all {
 public:
  std::array<key, 1> next() noexcept {
    at_ = (at_ * 5 + 12345) % rows_count;
    return {key{at_}};
  }

 private:
  std::uint64_t at_ = 1;
};

template <std::size_t Table>
void bench_pull(benchmark::State& state) {
  on_worker(state, [](benchmark::State& s, auto& worker) {
    walk_over_all rows;
    std::array<float, 1> out{};
    int n = 0;
    for (auto _ : s) {
      if (++n % batch == 0) {
        s.PauseTiming();
        worker.commit();  // so that each row is fetched, not found in the replica
        s.ResumeTiming();
      }
      worker[table<Table>].pull(rows.next(), out);
      benchmark::DoNotOptimize(out);
    }
  });
}

template <std::size_t Table>
void bench_push(benchmark::State& state) {
  on_worker(state, [](benchmark::State& s, auto& worker) {
    walk_over_all rows;
    std::array<float, 1> const one{1.0F};
    int n = 0;
    for (auto _ : s) {
      if (++n % batch == 0) {
        s.PauseTiming();
        worker.commit();
        s.ResumeTiming();
      }
      worker[table<Table>].push(rows.next(), one);
    }
  });
}

/// A clock that changes one row: read it, change it, commit.
void bench_clock(benchmark::State& state) {
  on_worker(state, [](benchmark::State& s, auto& worker) {
    walk_over_all rows;
    std::array<float, 1> out{};
    std::array<float, 1> const one{1.0F};
    for (auto _ : s) {
      auto const row = rows.next();
      worker.pull(row, out);
      worker.push(row, one);
      worker.commit();
    }
  });
}

}  // namespace

std::vector<micro_row> register_rows() {
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("pull 1 row (fetched)", bench_pull<0>);
  RegisterBenchmark("push 1 row", bench_push<0>);
  RegisterBenchmark("pull 1 row (fetched), sparse", bench_pull<1>);
  RegisterBenchmark("push 1 row, sparse", bench_push<1>);
  RegisterBenchmark("pull, push and commit 1 row", bench_clock);
  return {{"pull 1 row (fetched)", "", 0, "", "<= 300 ns"},
          {"push 1 row", "", 0, "", "<= 300 ns"},
          {"pull 1 row (fetched), sparse", "", 0, "", "<= 300 ns"},
          {"push 1 row, sparse", "", 0, "", "<= 300 ns"},
          {"pull, push and commit 1 row", "", 0, "", ""}};
}

}  // namespace rubato::bench
