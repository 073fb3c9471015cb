// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <vector>

#include "rubato/protocol/dssp.hpp"
#include "rubato/protocol/rules.hpp"

/// How long workers wait whose staleness is extended: Zhao, An, Liu, Chen, "Dynamic Stale Synchronous Parallel
/// Distributed Training for Deep Learning", ICDCS 2019.
namespace rubato::bench::icdcs19 {

/// As in the paper workers fetch in each clock, so that protocols differ by who waits, not by how old a cached copy may
/// be.
template <class Admission>
struct fetching : Admission {
  [[nodiscard]] constexpr clock_index cache_need(clock_index, staleness) const noexcept {
    return clock_index::highest();
  }
};
/// DSSP; with `low` = `high` SSP.
[[nodiscard]] rules fetching_dssp(staleness low, staleness high);

/// Workers whose steps take a second, times their slowness and a lognormal factor; no network.
struct wait_setting {
  std::vector<double> slowness{1, 2.6};
  double sigma = 0.1;
  std::int64_t clocks = 1'000;  ///< of the slowest
  std::uint64_t seed = 1;
};

/// What came of it.
struct waits {
  double waited = 0;            ///< the share of the workers' time
  double clocks_a_second = 0;   ///< of all workers
  std::int64_t furthest = 0;    ///< clocks that one was ahead of the slowest when it began one, at most
};

/// The real servers and workers, in the simulator.
[[nodiscard]] waits measured_waits(rules const& p, wait_setting const& how);

/// How an extension is decided.
struct extension_rules {
  bool by_computing = false;  ///< a worker's interval is what it computed for; else from commit to commit
  bool without_end = false;   ///< each extension is up to s_U, whatever was granted before
  bool one_commit = false;    ///< who waits goes on at the slowest's next commit, however far ahead it is
};

/// The same by a model of its own, which knows nothing of servers.
[[nodiscard]] waits modelled_waits(predicted_staleness const& p, extension_rules by, wait_setting const& how);

}  // namespace rubato::bench::icdcs19
