// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Storage that keeps versions, for something other than DynSGD: counts over a sliding window. Each
// clock's updates are a version, and a version older than the window is forgotten.
#include <chrono>
#include <cstdio>
#include <optional>
#include <rubato/rubato.hpp>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

struct window_sum {
  std::int64_t clocks = 3;

  // Where does an update belong?
  rb::version_index map(rb::commit_info const& c) const noexcept {
    return rb::version_index{c.stamp.value()};
  }
  // With what weight is it added to its version?
  double weight(rb::commit_info const&) const noexcept { return 1; }
  // What does a version count while it lives?
  double share(rb::version_state const&) const noexcept { return 1; }
  // When is it over, and what is then left of it?
  std::optional<double> expire(rb::version_state const& v,
                               rb::version_window const& w) const noexcept {
    if (v.version.value() + clocks >= w.c_max.value()) return std::nullopt;
    return 0.0;
  }
  // Where does a worker's next update belong, now that it has read? `map` does not ask.
  rb::version_index version_after(rb::version_read const& r) const noexcept { return r.own; }

  static constexpr bool exact = true;  // it only sums, so integers are welcome
};
static_assert(rb::versioned_merge<window_sum>);

int main() {
  constexpr std::uint64_t kinds = 4;
  rb::cluster cluster{rb::simulated{.workers = 3, .servers = 2},
                      rb::bsp{},
                      rb::dense<float>{.rows = 1},  // a model would be here
                      rb::multi_version{rb::dense<std::int64_t, window_sum>{.rows = kinds}}};
  auto const report = cluster.run([&](auto& worker) {
    std::vector<std::int64_t> recent(kinds);
    for (int clock = 0; clock < 8; ++clock) {
      auto const counts = worker[rb::table<1>];
      counts.pull(recent);
      if (worker.rank() == 0)
        std::printf("clock %d: %lld seen in the last clocks\n", clock,
                    static_cast<long long>(recent[0]));
      std::vector<std::uint64_t> const seen{0, 1 + worker.rank()};
      counts.push(seen, std::vector<std::int64_t>{1, 1});
      worker.step();
    }
  });
  std::printf("at most %zu versions at a time\n", report.versions_peak);
}
