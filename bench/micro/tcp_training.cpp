// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Logistic regression on examples that have a hundred of ten million features, as clicks are predicted from: workers
// pull the weights of a mini-batch, push its step and commit, over loopback TCP under ASP, each a process, as is the
// server. This process is the first worker. Beside them one thread that trains on an array of its own.
#include "bench/micro/tcp_training.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/micro/keys.hpp"
#include "bench/micro/table.hpp"
#include "bench/micro/tcp_process.hpp"
#include "bench/micro/tcp_server.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/data/compact.hpp"
#include "rubato/data/dataset.hpp"
#include "rubato/model/linear.hpp"
#include "rubato/model/loss.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::bench {
namespace {

using training_clock = std::chrono::steady_clock;

constexpr std::size_t features_of_an_example = 100;
constexpr std::size_t examples_of_a_batch = 100;
constexpr std::size_t batches_of_a_pass = 32;
constexpr int passes = 4;  // that are measured, after one in which memory is fresh
constexpr std::size_t examples_of_a_run = passes * batches_of_a_pass * examples_of_a_batch;

/// A worker's mini-batches, with the features that occur in each.
std::vector<data::compact_batch> batches_of(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<data::compact_batch> all;
  std::vector<float> const ones(features_of_an_example, 1.0F);
  for (std::size_t b = 0; b < batches_of_a_pass; ++b) {
    data::dataset_builder rows(rows_to_choose_from);
    for (std::size_t i = 0; i < examples_of_a_batch; ++i) {
      std::vector<std::uint32_t> features;
      while (features.size() < features_of_an_example) {
        features.push_back(static_cast<std::uint32_t>(random() % rows_to_choose_from));
        std::ranges::sort(features);
        features.erase(std::unique(features.begin(), features.end()), features.end());
      }
      rows.add(random() % 2 == 0 ? -1.0F : 1.0F, features, ones);
    }
    data::dataset const batch = rows.build();
    all.push_back(data::compact(batch));
  }
  return all;
}

/// Trains on all batches; `pull(keys, w)` and `push(keys, delta)` are how the weights are read and changed.
template <class Pull, class Push>
void train(std::vector<data::compact_batch> const& batches, Pull pull, Push push) {
  constexpr double rate = 0.1;
  model::linear_model<model::logistic_loss> const m;
  std::vector<float> w, delta;
  for (auto const& [keys, rows] : batches) {
    w.resize(keys.size());
    delta.resize(keys.size());
    pull(keys, std::span(w));
    m.local_step(rows, rate, w, delta);
    push(keys, std::span(delta));
  }
}

/// Returns the seconds of the passes that are measured, and of what `ended` does after them.
template <class Pass, class Ended>
double seconds_of_passes(Pass pass, Ended ended) {
  pass();
  ended();
  auto const start = training_clock::now();
  for (int i = 0; i < passes; ++i) pass();
  ended();
  return std::chrono::duration<double>(training_clock::now() - start).count();
}

void bench_plain_training(benchmark::State& state) {
  auto const batches = batches_of(0);
  std::vector<float> all(rows_to_choose_from);
  auto const pull = [&](std::vector<key> const& keys, std::span<float> w) {
    for (std::size_t i = 0; i < keys.size(); ++i) w[i] = all[keys[i].index()];
  };
  auto const push = [&](std::vector<key> const& keys, std::span<float> delta) {
    for (std::size_t i = 0; i < keys.size(); ++i) all[keys[i].index()] += delta[i];
  };
  for (auto _ : state)
    state.SetIterationTime(seconds_of_passes([&] { train(batches, pull, push); }, [] {}));
}

template <class Table>
double run_worker_on(served_table const& t, Table const& table) {
  double seconds = 0;
  cluster c{tcp{.place = t.place(net::role::worker)}, asp{}, table};
  c.run([&](auto& worker) {
    auto const batches = batches_of(worker.rank());
    auto const pull = [&](std::vector<key> const& keys, std::span<float> w) { worker.pull(keys, w); };
    auto const push = [&](std::vector<key> const& keys, std::span<float> delta) {
      worker.push(keys, delta);
      worker.commit();
    };
    std::vector<float> row(1);
    seconds = seconds_of_passes([&] { train(batches, pull, push); },
                                // Waits until the server has all commits of all workers up to here.
                                [&] { worker.pull(std::array{key{0}}, row, staleness{0}); });
  });
  return seconds;
}

double run_training(served_table const& t) {
  return t.sparse ? run_worker_on(t, sparse<float>{.rows = t.rows}) : run_worker_on(t, dense<float>{.rows = t.rows});
}

void bench_training(benchmark::State& state, std::uint32_t workers, bool sparse) {
  try {
    for (auto _ : state) {
      scratch_directory const meet;
      served_table const t{.protocol = std::string(asp::name()),
                           .rows = rows_to_choose_from,
                           .coordinator = meet.path() / "coordinator",
                           .workers = workers,
                           .sparse = sparse};
      other_process server(t.words());
      std::vector<std::string> other_worker = t.words();
      other_worker.front() = "train";
      std::optional<other_process> other;
      if (workers == 2) other.emplace(other_worker);
      state.SetIterationTime(run_training(t));
      if (other) (void)other->wait();
      (void)server.wait();
    }
  } catch (std::exception const& e) {
    state.SkipWithError(e.what());
  }
}

}  // namespace

void serve_training(std::vector<std::string> const& words) { (void)run_training(served_table::parse(words)); }

std::vector<micro_row> register_tcp_training() {
  std::vector<micro_row> rows;
  auto const add = [&](std::string name, std::string baseline, std::uint32_t workers, auto f, auto... arguments) {
    benchmark::RegisterBenchmark(name.c_str(), f, arguments...)->UseManualTime()->Iterations(1);
    rows.push_back({std::move(name), std::move(baseline), static_cast<double>(workers * examples_of_a_run), "examples",
                    ""});
  };
  std::string const plain = "train on 100 of 10M features, an array and one thread";
  add(plain, "", 1, bench_plain_training);
  for (bool const sparse : {false, true})
    for (std::uint32_t const workers : {1U, 2U})
      add(fmt::format("tcp: train on 100 of 10M features, {}, {} worker{}", sparse ? "sparse" : "dense", workers,
                      workers == 1 ? "" : "s"),
          plain, workers, bench_training, workers, sparse);
  return rows;
}

}  // namespace rubato::bench
