// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A thousand of ten million rows at a time, as a mini-batch of sparse examples reads and changes them, beside plain loops
// over an array that nobody else uses.

#include <algorithm>
#include <barrier>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "bench/micro/keys.hpp"
#include "bench/micro/table.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/transport/in_process.hpp"

namespace rubato::bench {

std::vector<std::vector<key>> batches_of_keys(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<key>> all(batches_in_a_round);
  for (auto& batch : all) {
    while (batch.size() < keys_in_a_batch) {
      while (batch.size() < keys_in_a_batch) batch.emplace_back(random() % rows_to_choose_from);
      std::ranges::sort(batch);
      batch.erase(std::unique(batch.begin(), batch.end()), batch.end());
    }
  }
  return all;
}

namespace {

constexpr int rounds = 8;

/// Calls `part(me)` `rounds` times in threads of its own, all at once; returns the seconds until the last has ended.
template <class Part>
double seconds_of_all(int threads, Part part) {
  std::chrono::steady_clock::time_point start;
  std::barrier gate(threads, [&]() noexcept { start = std::chrono::steady_clock::now(); });
  std::vector<std::jthread> all;
  for (int me = 0; me < threads; ++me)
    all.emplace_back([&, me] {
      gate.arrive_and_wait();
      for (int i = 0; i < rounds; ++i) part(me);
    });
  all.clear();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What a cycle cannot be quicker than: reads the rows, and adds to them.
void bench_plain(benchmark::State& state, int threads) {
  std::vector<std::vector<float>> w(static_cast<std::size_t>(threads), std::vector<float>(rows_to_choose_from));
  std::vector<std::vector<std::vector<key>>> keys;
  for (int me = 0; me < threads; ++me) keys.push_back(batches_of_keys(static_cast<std::uint64_t>(me)));
  auto const round = [&](int me) {
    std::vector<float> out(keys_in_a_batch);
    std::vector<float>& mine = w[static_cast<std::size_t>(me)];
    for (auto const& batch : keys[static_cast<std::size_t>(me)]) {
      for (std::size_t i = 0; i < batch.size(); ++i) out[i] = mine[batch[i].index()];
      benchmark::DoNotOptimize(out.data());
      benchmark::ClobberMemory();
      for (std::size_t i = 0; i < batch.size(); ++i) mine[batch[i].index()] += out[i];
      benchmark::ClobberMemory();
    }
  };
  seconds_of_all(threads, round);
  for (auto _ : state) state.SetIterationTime(seconds_of_all(threads, round) / (rounds * batches_in_a_round));
}

/// The same by workers, each cycle a pull, a push and a commit. All touch rows of all parts of the table.
template <class Table>
void bench_cycles(benchmark::State& state, int workers, bool in_order) {
  std::vector<std::vector<std::vector<key>>> keys;
  for (int me = 0; me < workers; ++me) {
    keys.push_back(batches_of_keys(static_cast<std::uint64_t>(me)));
    if (in_order) continue;
    for (auto& batch : keys.back()) std::ranges::shuffle(batch, std::mt19937_64(1));
  }
  cluster c{in_process{.workers = static_cast<std::uint32_t>(workers)}, asp{}, Table{.rows = rows_to_choose_from}};
  std::barrier gate(workers);
  std::chrono::steady_clock::time_point start;
  c.run([&](auto& worker) {
    std::vector<float> out(keys_in_a_batch);
    auto const round = [&] {
      for (auto const& batch : keys[worker.rank()]) {
        worker.pull(batch, out);
        worker.push(batch, out);
        worker.commit();
      }
    };
    round();
    gate.arrive_and_wait();
    if (worker.rank() == 0) start = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) round();
    gate.arrive_and_wait();
    if (worker.rank() != 0) return;
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - start;
    for (auto _ : state) state.SetIterationTime(took.count() / (rounds * batches_in_a_round));
  });
}

}  // namespace

std::vector<micro_row> register_keys() {
  std::vector<micro_row> rows;
  auto const add = [&](std::string name, std::string baseline, int threads, char const* aim, auto f, auto... arguments) {
    benchmark::RegisterBenchmark(name.c_str(), f, threads, arguments...)->UseManualTime()->Iterations(1);
    rows.push_back({std::move(name), std::move(baseline), static_cast<double>(threads), "cycles", aim});
  };
  std::string const what = "pull, push and commit 1000 of 10M keys";
  for (int const threads : {1, 2}) {
    std::string const who = threads == 1 ? ", 1 worker" : ", 2 workers";
    std::string const plain = fmt::format("read and add 1000 of 10M floats, {} thread{}", threads, threads == 1 ? "" : "s");
    add(plain, "", threads, "", bench_plain);
    add(what + who, plain, threads, "<= 2", bench_cycles<dense<float>>, true);
    add(what + " in no order" + who, plain, threads, "", bench_cycles<dense<float>>, false);
    add(what + ", sparse" + who, plain, threads, "", bench_cycles<sparse<float>>, true);
  }
  return rows;
}

}  // namespace rubato::bench
