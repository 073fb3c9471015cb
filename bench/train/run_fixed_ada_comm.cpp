// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/pacing.hpp"
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/fixed_ada_comm.hpp"

namespace rubato::bench {

run_result run_fixed_ada_comm(training const& job, protocol_parameters const& with) {
  training tuned = job;
  tuned.batch_tune = with.batch_tune;
  std::int64_t const steps = local_steps_of(job, with);
  fixed_ada_comm const p{.steps = steps};
  if (!with.global_momentum) return run_every(p, steps, tuned, dense_table(job));
  return run_every(rubato::with(p, momentum{.mu = *with.global_momentum}), steps, tuned,
                   dense_table(job));
}

}  // namespace rubato::bench
