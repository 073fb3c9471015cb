// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A protocol of your own between processes. It is bounded staleness with average, and commits at random after
// one to eight local steps, so that workers do not all send at once.
//   rubato-launch -n 3 -s 2 -- 125_your_protocol_across_processes
// The launcher starts this program as coordinator and as servers, too, which so follow the same policies. First
// it is checked, and tried out in the simulator.
#include <cstdio>
#include <rubato/core/random.hpp>
#include <rubato/rubato.hpp>
#include <rubato/testing/conformance.hpp>
#include <rubato/transport/tcp.hpp>
#include <vector>

namespace rb = rubato;

struct scattered_ssp {
  struct scattered_pace {
    rb::commit_due due(rb::pace_point at) const noexcept {
      auto const clock = static_cast<std::uint64_t>(at.clock.value());
      rb::random_stream draws(31 * clock + at.worker.value());  // the same whenever it is asked
      return {.steps = 1 + static_cast<std::int64_t>(8 * draws.uniform())};
    }
  };
  rb::staleness s = 3;

  auto admission() const { return rb::bounded_staleness{s}; }
  auto visibility() const { return rb::eager{}; }
  auto merge() const { return rb::average{}; }
  auto pace() const { return scattered_pace{}; }
  static constexpr std::string_view name() { return "scattered_ssp"; }
};
static_assert(rb::is_protocol<scattered_ssp>());

template <class Transport>
void train(char const* where, Transport const& transport) {
  rb::cluster cluster{transport, scattered_ssp{}, rb::dense<float>{.rows = 1'000}};
  auto const report = cluster.run([](auto& worker) {
    std::vector<float> w(1'000), delta(w.size());
    for (int i = 0; i < 400; ++i) {
      worker.pull(w);
      for (std::size_t k = 0; k < w.size(); ++k) delta[k] = 0.1F * (static_cast<float>(k % 7) - w[k]);
      worker.push(delta);
      worker.step();
    }
  });
  if (!cluster.runtime().has_workers()) return;  // it has served those that train
  std::printf("%s: parameter 5 is %.2f after %zu commits of %zu steps\n", where,
              static_cast<double>(cluster.parameters()[5]), static_cast<std::size_t>(report.updates),
              static_cast<std::size_t>(report.total().steps));
}

int main() try {
  auto const across = rb::tcp::from_environment();
  if (across.place.as == rb::net::role::worker && across.place.rank == 0) {
    auto const violations = rb::testing::check_protocol(scattered_ssp{});
    for (auto const& sentence : violations) std::printf("%s\n", sentence.c_str());
    if (!violations.empty()) return 1;
    train("simulated", rb::simulated{.workers = 3, .servers = 2});
  }
  train("across processes", across);
} catch (rb::error const& e) {
  std::fprintf(stderr, "125_your_protocol_across_processes: %s\n", e.what());
  return 1;
}
