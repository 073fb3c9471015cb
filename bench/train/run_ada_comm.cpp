// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/pacing.hpp"
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/ada_comm.hpp"

namespace rubato::bench {

run_result run_ada_comm(training const& job, protocol_parameters const& with) {
  return run_at_own_pace(ada_comm{.first_steps = local_steps_of(job, with),
                                  .interval = pace_times_of(job, with).interval},
                         job);
}

}  // namespace rubato::bench
