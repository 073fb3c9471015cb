// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

#include "rubato/protocol/rules.hpp"
#include "rubato/sim/distribution.hpp"

/// What others have not seen of a worker's updates: Dai, Kumar, Wei, Ho, Gibson, Xing, "High-Performance Distributed ML
/// at Scale through Parameter Server Consistency Models", AAAI 2015.
namespace rubato::bench::aaai15 {

/// Workers whose commits move a parameter of their own by 1/√t at clock t − 1, so that who reads them all knows what
/// it has seen of each.
struct unseen_setting {
  std::uint32_t workers = 8;
  std::int64_t clocks = 1'000;
  sim::distribution time{};  ///< of a step
  std::uint64_t seed = 1;
};

/// What was found by who reads, and not by servers.
struct unseen {
  /// √t times the most of a worker's updates that another one who computes has not seen, when the worker reads.
  double at_reads = 0;
  double with_own = 0;   ///< the same when it has computed the next commit
  double waited = 0;     ///< the share of the workers' time
  double clocks_a_second = 0;  ///< of a worker; a step takes 1 ms
};
/// Runs the real servers and workers in the simulator.
[[nodiscard]] unseen unseen_of(rules const& p, unseen_setting const& how);

}  // namespace rubato::bench::aaai15
