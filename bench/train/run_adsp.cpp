// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/pacing.hpp"
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/adsp.hpp"

namespace rubato::bench {

run_result run_adsp(training const& job, protocol_parameters const& with) {
  pace_times const t = pace_times_of(job, with);
  adsp const p{.check_period = t.check_period,
               .epoch = t.epoch,
               .probe_period = t.probe_period,
               .first_rate = with.commit_rate.value_or(1),
               .search = !with.commit_rate,
               .global_rate = with.global_rate};
  if (!with.global_momentum) return run_at_own_pace(p, job);
  return run_at_own_pace(
      rubato::with(p, momentum{.mu = *with.global_momentum, .eta = with.global_rate}), job);
}

}  // namespace rubato::bench
