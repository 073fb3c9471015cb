// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Whom to wait for: each worker keeps within two clocks of its neighbors in a ring, and of nobody else. Prints what the
// conformance test says, and how far each worker came when the slow one had made 20 clocks: the further away, the more.
#include <chrono>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/testing/conformance.hpp>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

struct neighbors_in_a_ring {
  std::uint32_t of = 8;
  rb::bounded_staleness near{2};

  rb::staleness bound() const noexcept { return rb::staleness::infinite(); }  // of those that it does not heed
  rb::clock_index need(rb::clock_index c, rb::staleness s) const noexcept { return near.need(c, s); }
  rb::clock_index cache_need(rb::clock_index c, rb::staleness s) const noexcept { return near.cache_need(c, s); }
  bool heeds(rb::worker_id reader, rb::worker_id other, rb::clock_index) const noexcept {
    std::uint32_t const apart = (reader.value() + of - other.value()) % of;
    return apart == 1 || apart == of - 1;
  }
};
static_assert(rb::heeding_admission<neighbors_in_a_ring>);

int main() {
  rb::composed const protocol{neighbors_in_a_ring{}, rb::eager{}, rb::average{}, rb::every_step{}, "neighbors"};
  auto const violations = rb::testing::check_protocol(protocol);
  std::printf("%zu violations\n", violations.size());
  for (auto const& sentence : violations) std::printf("  %s\n", sentence.c_str());

  // Worker 0 takes four times as long as the others.
  rb::simulated const plan{.workers = 8,
                           .scenario = {.speed = {.work_cost = 1ms, .slowness = {4, 1, 1, 1, 1, 1, 1, 1}}}};
  rb::cluster cluster{plan, protocol, rb::dense<float>{.rows = 1}};
  auto const report = cluster.run([](auto& worker) {
    std::vector<float> w(1), delta(1, 0.1F);
    while (worker.now().since_start() < 80ms) {
      worker.pull(w);
      worker.push(delta);
      worker.step();
    }
  });
  for (std::size_t i = 0; i < report.workers.size(); ++i)
    std::printf("worker %zu: %llu clocks\n", i, static_cast<unsigned long long>(report.workers[i].commits));
}
