// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/con_sgd.hpp"

namespace rubato::bench {

run_result run_con_sgd(training const& job, protocol_parameters const& with) {
  con_sgd const p{.staleness = staleness{with.staleness}, .fold = {.lambda = with.global_rate}};
  return run_protocol(p, job);
}

}  // namespace rubato::bench
