// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

#include "bench/train/protocols.hpp"
#include "bench/train/training.hpp"
#include "rubato/core/time.hpp"

namespace rubato::bench {

/// Of which a run counts some dozens; three years.
constexpr duration longest_time = std::chrono::seconds(100'000'000);

/// Local steps per commit of the protocols that average replicas. By default a pass over the data, or twice the job's
/// where that is more: with as many as the job's, Fixed ADACOMM would be what `bsp` stands for in a comparison.
[[nodiscard]] std::int64_t local_steps_of(training const& job, protocol_parameters const& with);

/// When conductors do what.
struct pace_times {
  duration check_period;
  duration epoch;
  duration probe_period;
  duration interval;  ///< of ada_comm
};
/// What was asked for, and defaults after 003 §5.1 for the rest: there a check period takes a
/// minute and an epoch 20. A probe takes two here, not one: at one commit per check period all
/// workers commit together at its end, so that the loss does not move during a probe of one.
[[nodiscard]] pace_times pace_times_of(training const& job, protocol_parameters const& with);

}  // namespace rubato::bench
