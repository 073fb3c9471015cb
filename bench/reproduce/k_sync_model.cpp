// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "bench/reproduce/k_sync.hpp"
#include "bench/train/body.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/core/random.hpp"
#include "rubato/core/time.hpp"
#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/k_async.hpp"
#include "rubato/protocol/k_sync.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench::aistats18 {
namespace {

using namespace std::chrono_literals;

bool synchronous(waiting how) { return how == waiting::k_sync || how == waiting::k_batch_sync; }
bool waits(waiting how) { return how == waiting::k_sync || how == waiting::k_async; }

}  // namespace

rules protocol_of(waiting how, std::uint32_t k) {
  rules const p = synchronous(how) ? rules(k_sync{.k = k}) : rules(k_async{.k = k});
  return waits(how) ? p : with(p, unbounded{});
}

double harmonic(std::uint32_t n) noexcept {
  double h = 0;
  for (std::uint32_t i = 1; i <= n; ++i) h += 1.0 / i;
  return h;
}

double expected_time(waiting how, std::uint32_t k, std::uint32_t workers) noexcept {
  if (waits(how)) return harmonic(workers) - harmonic(workers - k);
  return static_cast<double>(k) / workers;
}

double modelled_time(waiting how, std::uint32_t k, std::uint32_t workers, model_rules by, std::int64_t versions,
                     std::uint64_t seed) {
  random_stream random(seed);
  std::int64_t version = 0;
  std::vector<std::int64_t> computes(workers, 0);  // each worker's update, at this version
  std::vector<std::uint32_t> waiting_ones;
  double time = 0;
  for (std::uint32_t counted = 0; version < versions;) {
    std::size_t place = random.below(workers - waiting_ones.size());
    time += random.exponential() / static_cast<double>(workers - waiting_ones.size());
    std::uint32_t who = 0;
    for (;; ++who)
      if (std::ranges::find(waiting_ones, who) == waiting_ones.end() && place-- == 0) break;
    bool const fresh = computes[who] == version;
    computes[who] = version;
    if (fresh || !synchronous(how)) ++counted;
    if (waits(how) && (fresh || by.waits_for_own)) waiting_ones.push_back(who);
    if (counted < k) continue;
    counted = 0;
    ++version;
    computes[who] = version;  // who makes a version full reads it
    for (std::uint32_t const w : waiting_ones) computes[w] = version;
    waiting_ones.clear();
    if (by.cancels && synchronous(how)) std::ranges::fill(computes, version);
  }
  return time / static_cast<double>(versions);
}

double measured_time(rules const& p, std::uint32_t workers, sim::distribution const& time, std::int64_t versions,
                     std::uint64_t seed) {
  sim::scenario const place{
      .speed = {.work_cost = 1ms, .jitter = time}, .network = {.worker_link = {.latency = 0ms}}, .seed = seed};
  cluster c{simulated{.workers = workers, .servers = 1, .scenario = place}, p, dense<float>{.rows = 1}};
  double first = 0, last = 0;
  time_point begins, ends;
  // Each update is 1 and a version their mean, so the parameter counts versions: exactly, up to 2^24.
  c.run([&](training_worker& worker) {
    std::vector<float> read(1);
    std::vector<float> const one = {1};
    for (bool seen = false;;) {
      worker.pull(read);
      if (worker.rank() == 0 && (!seen || static_cast<double>(read[0]) > last)) {
        last = static_cast<double>(read[0]);
        ends = worker.now();
        if (!seen && last >= 10) {  // past the beginning, which all begin at once
          first = last;
          begins = ends;
          seen = true;
        }
      }
      if (last >= static_cast<double>(versions)) return;
      worker.push(one);
      worker.step();
    }
  });
  return to_seconds(ends - begins) / (last - first) / 1e-3;
}

}  // namespace rubato::bench::aistats18
