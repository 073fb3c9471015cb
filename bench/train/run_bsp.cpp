// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/bsp.hpp"

namespace rubato::bench {

run_result run_bsp(training const& job, protocol_parameters const& with) {
  training tuned = job;
  tuned.batch_tune = with.batch_tune;
  if (!with.global_momentum) return run_protocol(bsp{}, tuned);
  return run_protocol(rubato::with(bsp{}, momentum{.mu = *with.global_momentum}), tuned);
}

}  // namespace rubato::bench
