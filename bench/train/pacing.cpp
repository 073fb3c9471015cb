// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/pacing.hpp"

#include <algorithm>
#include <cmath>

#include "bench/train/timing.hpp"

namespace rubato::bench {
namespace {

/// The whole number of check periods that is next to `d`, one at least.
duration in_check_periods(duration d, duration check_period) {
  double const periods = std::round(to_seconds(d) / to_seconds(check_period));
  return check_period * std::max<std::int64_t>(1, static_cast<std::int64_t>(periods));
}

double seconds_of_a_clock(training const& job, protocol_parameters const& with) {
  timing const t = timing_of(job);
  return static_cast<double>(local_steps_of(job, with)) * t.slowest_step() + t.exchange_seconds;
}

}  // namespace

std::int64_t local_steps_of(training const& job, protocol_parameters const& with) {
  return with.local_steps.value_or(std::max(2 * job.steps_per_commit, job.steps_of_a_pass()));
}

pace_times pace_times_of(training const& job, protocol_parameters const& with) {
  constexpr int periods_in_epoch = 20;
  constexpr int periods_in_probe = 2;
  constexpr int periods_in_interval = 5;
  duration const period =
      with.check_period ? *with.check_period : std::min(seconds(seconds_of_a_clock(job, with)), longest_time);
  pace_times t{.check_period = period,
               .epoch = period * periods_in_epoch,
               .probe_period = period * periods_in_probe,
               .interval = period * periods_in_interval};
  if (with.epoch) t.epoch = in_check_periods(*with.epoch, period);
  if (with.probe_period) t.probe_period = in_check_periods(*with.probe_period, period);
  return t;
}

}  // namespace rubato::bench
