// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// An admission that knows who asks: the first workers keep within a clock of the slowest, all others read
// whenever they like. Prints what the conformance test says, how far each worker came in 100 ms of virtual
// time, and how long it waited.
#include <chrono>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/testing/conformance.hpp>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

struct some_wait {
  std::uint32_t who_wait = 2;
  rb::bounded_staleness near{1};

  rb::staleness bound() const noexcept { return rb::staleness::infinite(); }  // the greatest of all
  rb::clock_index need(rb::clock_index c, rb::staleness s, rb::worker_id who) const noexcept {
    return waits(who) ? near.need(c, s) : rb::unbounded{}.need(c, s);
  }
  rb::clock_index cache_need(rb::clock_index c, rb::staleness s, rb::worker_id who) const noexcept {
    return waits(who) ? near.cache_need(c, s) : rb::unbounded{}.cache_need(c, s);
  }
  bool waits(rb::worker_id who) const noexcept { return who.value() < who_wait; }
};
static_assert(rb::admission_policy<some_wait>);

int main() {
  rb::composed const protocol{some_wait{}, rb::eager{}, rb::average{}, rb::every_step{}, "some_wait"};
  auto const violations = rb::testing::check_protocol(protocol);
  std::printf("%zu violations\n", violations.size());
  for (auto const& sentence : violations) std::printf("  %s\n", sentence.c_str());

  // Workers 0 and 2 are equally fast, 1 and 3 take four times as long.
  rb::simulated const plan{.workers = 4, .scenario = {.speed = {.work_cost = 1ms, .slowness = {1, 4, 1, 4}}}};
  rb::cluster cluster{plan, protocol, rb::dense<float>{.rows = 1}};
  auto const report = cluster.run([](auto& worker) {
    std::vector<float> w(1), delta(1, 0.1F);
    while (worker.now().since_start() < 100ms) {
      worker.pull(w);
      worker.push(delta);
      worker.step();
    }
  });
  for (std::size_t i = 0; i < report.workers.size(); ++i)
    std::printf("worker %zu: %llu clocks, waited %.0f ms\n", i,
                static_cast<unsigned long long>(report.workers[i].commits),
                rb::to_seconds(report.workers[i].wait) * 1000);
}
