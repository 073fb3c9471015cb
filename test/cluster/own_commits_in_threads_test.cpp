// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Read-my-writes (SSP-2) while other threads fold what was held back: a table large enough that a
// fold takes a while, and workers that look at an element of their own.
#include <catch2/catch.hpp>

#include <atomic>
#include <vector>

#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/in_process.hpp"

using namespace rubato;

namespace {

/// Shows complete clocks only, so own commits are often still held back.
struct complete_clocks {
  static constexpr bool holds_back = true;
  [[nodiscard]] clock_index horizon(fold_window const& w) const noexcept { return w.c_min; }
};

/// How many reads did not show the reader's own commits exactly once.
template <protocol Protocol>
int wrong_reads(Protocol p) {
  constexpr std::size_t rows = 1 << 16;
  cluster c{in_process{.workers = 4, .servers = 1}, p, dense<float>{.rows = rows}};
  std::atomic<int> wrong = 0;
  c.run([&](auto& worker) {
    std::vector<float> w(rows), u(rows);
    u[worker.rank()] = 1;
    for (int clock = 0; clock < 60; ++clock) {
      worker.pull(w);
      if (w[worker.rank()] != static_cast<float>(clock)) ++wrong;
      worker.push(u);
      worker.commit();
    }
  });
  return wrong;
}

}  // namespace

TEST_CASE("own commits are seen exactly once while others fold (SSP-2)") {
  CHECK(wrong_reads(with(ssp{.staleness = 1}, strict{})) == 0);
  CHECK(wrong_reads(with(ssp{.staleness = 3}, strict{})) == 0);
  CHECK(wrong_reads(with(asp{}, strict{})) == 0);
  CHECK(wrong_reads(with(ssp{.staleness = 3}, complete_clocks{})) == 0);
}
