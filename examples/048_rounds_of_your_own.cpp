// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Rounds of one's own: two shifts of workers take turns, and a round is over when two thirds of a shift have
// committed. Prints what the conformance test says, how many rounds there were, and who had to be left out.
#include <chrono>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/testing/conformance.hpp>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

/// Who waits: workers of even number compute in even rounds, the others in odd ones.
struct shifts : rb::unbounded {
  static constexpr bool by_round = true;
  bool takes_part(rb::worker_id w, rb::version_index round) const noexcept {
    return static_cast<std::int64_t>(w.value() % 2) == round.value() % 2;
  }
};
static_assert(rb::sampling_admission<shifts>);

/// What is seen: so many of each round, and what comes later is left out.
struct two_thirds {
  static constexpr bool holds_back = true;
  static constexpr rb::late_commit late = rb::late_commit::drop;
  std::uint32_t shift;
  std::uint32_t round_size() const noexcept { return (2 * shift + 2) / 3; }
};
static_assert(rb::round_visibility<two_thirds>);

int main() {
  rb::composed const protocol{shifts{}, two_thirds{.shift = 3}, rb::average{}, rb::every_step{}, "shifts"};
  auto const violations = rb::testing::check_protocol(protocol);
  std::printf("%zu violations\n", violations.size());
  for (auto const& sentence : violations) std::printf("  %s\n", sentence.c_str());

  // Worker 4 takes three times as long as the others.
  rb::simulated const plan{.workers = 6, .scenario = {.speed = {.work_cost = 1ms, .slowness = {1, 1, 1, 1, 3, 1}}}};
  rb::cluster cluster{plan, protocol, rb::dense<float>{.rows = 1}};
  auto const report = cluster.run([](auto& worker) {
    std::vector<float> w(1), delta(1, 1);
    for (int clock = 0; clock < 12; ++clock) {
      worker.pull(w);
      worker.push(delta);
      worker.step();
    }
  });
  std::printf("%llu rounds of %llu commits, %llu came late; w = %g\n",
              static_cast<unsigned long long>(report.servers.rounds),
              static_cast<unsigned long long>(report.updates), static_cast<unsigned long long>(report.servers.late),
              static_cast<double>(cluster.parameters()[0]));
}
