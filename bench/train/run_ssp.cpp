// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/ssp.hpp"

namespace rubato::bench {

run_result run_ssp(training const& job, protocol_parameters const& with) {
  return run_protocol(ssp{.staleness = staleness{with.staleness}}, job);
}

}  // namespace rubato::bench
