// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Pulls, pushes and commits of whole tables in process, beside memcpy and axpy on the same bytes.

#include <fmt/core.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "bench/micro/table.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/server/coordinator.hpp"
#include "rubato/server/shard.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/in_process.hpp"

namespace rubato::bench {
namespace {

constexpr std::size_t million = 1'000'000;

void axpy(float* to, float const* from, std::size_t n) {
  using vector = Eigen::Map<Eigen::ArrayXf>;
  using const_vector = Eigen::Map<Eigen::ArrayXf const>;
  vector(to, static_cast<Eigen::Index>(n)) += const_vector(from, static_cast<Eigen::Index>(n));
}

void bench_memcpy(benchmark::State& state, std::size_t n) {
  std::vector<float> from(n, 1.0F), to(n);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), n * sizeof(float));
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
}

void bench_axpy(benchmark::State& state, std::size_t n) {
  std::vector<float> from(n, 1.0F), to(n);
  for (auto _ : state) {
    axpy(to.data(), from.data(), n);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
}

/// Runs the measurement on the one worker of an in-process cluster.
template <protocol Protocol, class F>
void on_worker(benchmark::State& state, Protocol p, std::size_t n, F measure) {
  std::vector<float> const zeros(n);
  cluster c{in_process{}, p, dense<float>{.rows = n, .init = zeros}};
  c.run([&](auto& worker) { measure(state, worker); });
}

void bench_pull(benchmark::State& state) {
  on_worker(state, asp{}, million, [](benchmark::State& s, auto& worker) {
    std::vector<float> w(million);
    for (auto _ : s) {
      worker.commit();  // empty: it only makes the next pull fetch
      worker.pull(w);
      benchmark::DoNotOptimize(w.data());
    }
  });
}

void bench_push_commit(benchmark::State& state) {
  on_worker(state, asp{}, million, [](benchmark::State& s, auto& worker) {
    std::vector<float> const u(million, 1.0F);
    for (auto _ : s) {
      worker.push(u);
      worker.commit();
    }
  });
}

/// What is pushed is written anew each time, as a gradient is: into a vector, or right into the update.
void bench_written(benchmark::State& state, bool in_place) {
  on_worker(state, asp{}, million, [in_place](benchmark::State& s, auto& worker) {
    std::vector<float> u(million);
    for (auto _ : s) {
      if (in_place) {
        worker.push_in_place([](std::span<float> delta) { std::ranges::fill(delta, 1.0F); });
      } else {
        std::ranges::fill(u, 1.0F);
        worker.push(u);
      }
      worker.commit();
    }
  });
}

/// Every clock begins with a read, outside the measurement, so that the replica is there and has to
/// follow: the store folds into new chunks because the worker still reads the old ones.
void bench_push_commit_replica(benchmark::State& state) {
  on_worker(state, ssp{.staleness = 1'000'000}, million, [](benchmark::State& s, auto& worker) {
    std::vector<float> w(million);
    std::vector<float> const u(million, 1.0F);
    for (auto _ : s) {
      s.PauseTiming();
      worker.pull(w, staleness{0});
      s.ResumeTiming();
      worker.push(u);
      worker.commit();
    }
  });
}

// ---- two workers on disjoint chunks

/// Two threads that do their own part over and over while the benchmark waits: one iteration is one
/// round of both.
class pair_of_threads {
 public:
  explicit pair_of_threads(std::function<void(int)> part) : part_(std::move(part)) {}

  /// Each thread does `rounds` of its part; returns the seconds from the common start to the later
  /// end.
  [[nodiscard]] double run(std::size_t rounds) const {
    using clock = std::chrono::steady_clock;
    std::atomic<int> ready = 0;
    std::atomic<bool> go = false;
    clock::time_point ends[2];
    auto const body = [&](int me) {
      ++ready;
      while (!go) std::this_thread::yield();
      for (std::size_t i = 0; i < rounds; ++i) part_(me);
      ends[me] = clock::now();
    };
    std::thread other(body, 1);
    std::thread self(body, 0);
    while (ready != 2) std::this_thread::yield();
    auto const start = clock::now();
    go = true;
    other.join();
    self.join();
    return std::chrono::duration<double>(std::max(ends[0], ends[1]) - start).count();
  }

 private:
  std::function<void(int)> part_;
};

void time_pair(benchmark::State& state, std::function<void(int)> part) {
  pair_of_threads const pair(std::move(part));
  std::size_t const rounds = 64 * million / static_cast<std::size_t>(state.range(0)) + 1;
  for (auto _ : state) state.SetIterationTime(pair.run(rounds) / static_cast<double>(rounds));
}

void bench_two_axpy(benchmark::State& state) {
  auto const n = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  std::vector<float> const u(n, 1.0F);
  std::vector<float> w(n);
  std::size_t const half = n / 2;
  time_pair(state, [&](int me) {
    std::size_t const at = me == 0 ? 0 : half;
    axpy(w.data() + at, u.data() + at, half);
    benchmark::ClobberMemory();
  });
}

/// A commit of one half of the rows, as a worker would send it.
commit_message half_commit(worker_id w, std::uint64_t rows, std::size_t width) {
  auto part = update();
  part.rows.resize(rows / 2);
  std::iota(part.rows.begin(), part.rows.end(), w.value() == 0 ? 0 : rows / 2);
  part.values.assign_zeros(rows / 2 * width * sizeof(float));
  return {.from = {.worker = w, .incarnation = {}, .stage = {}}, .parts = {shared_update(std::move(part))}};
}

void join(shard& server, coordinator& members, worker_id w) {
  std::vector<worker_id> nobody;
  for (std::optional order = members.join(w, {}); order;) {
    auto const said = server.order(*order, nobody);
    order = said ? members.report(*order, *said) : std::nullopt;
  }
}

void bench_two_workers(benchmark::State& state) {
  std::size_t const width = 1024;
  std::uint64_t const rows = static_cast<std::uint64_t>(state.range(0)) / sizeof(float) / width;
  blueprint const plan(asp{}, 1, {describe(dense<float>{.rows = rows, .width = width})});
  shard server(plan, server_id{0}, threading::multiple);
  coordinator members(1);
  commit_message commits[2];
  for (std::uint32_t w : {0U, 1U}) {
    join(server, members, worker_id{w});
    commits[w] = half_commit(worker_id{w}, rows, width);
  }
  time_pair(state, [&](int me) {
    std::vector<worker_id> released;
    (void)server.commit(commit_message(commits[me]), released);
    commits[me].stamp = commits[me].stamp.next();
  });
}

}  // namespace

std::vector<micro_row> register_memory() {
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("memcpy 1M floats", bench_memcpy, million);
  RegisterBenchmark("axpy 1M floats", bench_axpy, million);
  RegisterBenchmark("pull 1M floats", bench_pull);
  RegisterBenchmark("push+commit 1M floats", bench_push_commit);
  RegisterBenchmark("push+commit 1M floats, replica kept", bench_push_commit_replica);
  RegisterBenchmark("write, push, commit 1M floats", bench_written, false);
  RegisterBenchmark("write in place, commit 1M floats", bench_written, true);
  std::vector<micro_row> rows = {
      {"memcpy 1M floats", "", 4e6, "B", ""},
      {"axpy 1M floats", "", 4e6, "B", ""},
      {"pull 1M floats", "memcpy 1M floats", 4e6, "B", "<= 1.5"},
      {"push+commit 1M floats", "axpy 1M floats", 4e6, "B", "<= 2.5"},
      {"push+commit 1M floats, replica kept", "axpy 1M floats", 4e6, "B", "<= 4"},
      {"write, push, commit 1M floats", "axpy 1M floats", 4e6, "B", ""},
      {"write in place, commit 1M floats", "write, push, commit 1M floats", 4e6, "B", ""}};
  for (std::int64_t const megabytes : {2, 32}) {
    std::string const size = fmt::format("{} MB", megabytes);
    for (bool const ours : {false, true}) {
      std::string const name = (ours ? "2 workers, disjoint chunks, " : "2 threads, axpy, ") + size;
      RegisterBenchmark(name.c_str(), ours ? bench_two_workers : bench_two_axpy)
          ->Arg(megabytes << 20)
          ->UseManualTime()
          ->Iterations(1);
      rows.push_back({name, ours ? "2 threads, axpy, " + size : "",
                      static_cast<double>(megabytes << 20), "B", ours ? "<= 1/0.85 = 1.18" : ""});
    }
  }
  return rows;
}

}  // namespace rubato::bench
