// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A protocol of a user's own: one struct, at most 20 lines, nothing derived, nothing registered.
#include <rubato/rubato.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

namespace {

/// Ranks take turns: worker r's updates count 1/(r + 1), workers may be two clocks apart, and a
/// commit comes after two steps.
struct by_rank {
  struct fold {
    double weight(rb::commit_info const& c) const noexcept { return 1.0 / (1.0 + c.from.value()); }
  };
  rb::bounded_staleness admission() const { return {2}; }
  rb::eager visibility() const { return {}; }
  fold merge() const { return {}; }
  rb::every pace() const { return {2}; }
};
static_assert(rb::protocol<by_rank>);

}  // namespace

TEST_CASE("a user's protocol of one small struct runs from end to end") {
  rb::cluster cluster{rb::simulated{.workers = 4, .servers = 2, .scenario = {}}, by_rank{},
                      rb::dense<double>{.rows = 8}};
  std::int64_t widest = 0;
  std::vector<std::int64_t> clocks(4);
  auto const report = cluster.run([&](auto& worker) {
    std::vector<double> w(8);
    std::vector<double> const one(8, 1.0);
    for (int i = 0; i < 12; ++i) {
      worker.pull(w);
      clocks[worker.rank()] = worker.clock().value();
      widest = std::max(widest, worker.clock().value() - *std::ranges::min_element(clocks));
      worker.push(one);
      worker.step(1.0 + 9.0 * worker.rank());
    }
    clocks[worker.rank()] = 1000;
  });
  // Twelve pushes of 1 from each worker, of which rank r's count 1/(r + 1): 12 + 6 + 4 + 3.
  for (double const x : cluster.parameters()) CHECK(x == Approx(25.0));
  CHECK(report.total().commits == 4 * 6);
  CHECK(report.updates == 4 * 6);
  CHECK(widest == 2);
  CHECK(report.workers[0].wait > 0ns);
}
