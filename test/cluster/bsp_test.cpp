// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/cluster/cluster.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

namespace rb = rubato;

namespace {

constexpr std::uint32_t trainers = 3;
constexpr std::size_t size = 61;
constexpr int rounds = 12;
constexpr std::uint64_t seed = 9;

using floats = std::vector<float>;

floats start() {
  floats w(size);
  std::iota(w.begin(), w.end(), -17.5F);
  return w;
}

/// An update that depends on every bit of what was read: whole at even clocks, and at odd ones for
/// a few rows, which are named.
struct training_step {
  std::vector<std::uint64_t> keys;
  floats delta;

  training_step(floats const& w, std::uint32_t rank, int clock, rb::random_stream& random) {
    for (std::uint64_t k = rank; k < size; k += clock % 2 == 0 ? 1 : 7)
      keys.push_back(clock % 2 == 0 ? k - rank : k);
    if (clock % 2 == 0)
      for (std::uint64_t k = size - rank; k < size; ++k) keys.push_back(k);
    for (std::uint64_t const k : keys) {
      float const x = w[static_cast<std::size_t>(k)];
      float const next = w[static_cast<std::size_t>(k + 1) % size];
      delta.push_back(0.37F * next - 0.11F * x + static_cast<float>(random.uniform()));
    }
  }
};

/// The sequential run of rules §2: each clock's updates are folded in worker order, each a third.
floats sequential_run() {
  floats w = start();
  std::vector<rb::random_stream> streams;
  for (std::uint32_t r = 0; r < trainers; ++r) streams.emplace_back(seed, r, 0U);
  for (int c = 0; c < rounds; ++c) {
    floats next = w;
    for (std::uint32_t r = 0; r < trainers; ++r) {
      training_step const step(w, r, c, streams[r]);
      for (std::size_t i = 0; i < step.keys.size(); ++i)
        next[static_cast<std::size_t>(step.keys[i])] +=
            static_cast<float>(1.0 / trainers) * step.delta[i];
    }
    w = next;
  }
  return w;
}

template <class Transport, rb::protocol P>
floats run(Transport transport, P p) {
  floats const w0 = start();
  rb::cluster cluster{std::move(transport), p, rb::dense<float>{.rows = size, .init = w0}};
  std::vector<floats> seen(rounds);
  std::mutex lock;
  bool same = true;
  cluster.run([&](auto& worker) {
    floats w(size);
    for (int c = 0; c < rounds; ++c) {
      worker.pull(w);
      {
        std::lock_guard const guard(lock);
        auto& first = seen[static_cast<std::size_t>(c)];
        if (first.empty()) first = w;
        same = same && first == w;
      }
      training_step const step(w, worker.rank(), c, worker.random());
      if (c % 2 == 0 && worker.rank() == 0) worker.push(step.delta);
      else worker.push(step.keys, step.delta);
      worker.step();
    }
  });
  CHECK(same);  // who reads at the same clock sees the same bits
  return cluster.parameters();
}

rb::in_process threads(std::uint32_t servers) {
  return {.workers = trainers, .servers = servers, .slowness = {1.0, 3.0}, .seed = seed};
}

rb::simulated fibers(std::uint32_t servers) {
  return {.workers = trainers,
          .servers = servers,
          .scenario = {.speed = {.slowness = {1.0, 3.0, 0.5}, .jitter = rb::sim::exponential{}},
                       .network = {.worker_link = {.jitter = rb::sim::pareto{}}},
                       .seed = seed}};
}

auto const ssp_as_bsp = with(rb::ssp{.staleness = 0}, rb::strict{}, rb::average{});

}  // namespace

TEST_CASE("BSP: equals a sequential run bit for bit, with any number of servers, in threads and in "
          "virtual time (rules §2, BSP)") {
  floats const expected = sequential_run();
  for (std::uint32_t const servers : {1U, 2U, 7U}) {
    INFO(servers << " servers");
    CHECK(run(threads(servers), rb::bsp{}) == expected);
    CHECK(run(fibers(servers), rb::bsp{}) == expected);
  }
}

TEST_CASE("SSP(0): strict and with the same merge is BSP bit for bit, in both transports "
          "(rules §2)") {
  floats const expected = sequential_run();
  CHECK(run(threads(2), ssp_as_bsp) == expected);
  CHECK(run(fibers(2), ssp_as_bsp) == expected);
  CHECK(run(fibers(5), ssp_as_bsp) == expected);
}
