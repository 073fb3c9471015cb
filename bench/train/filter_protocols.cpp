// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Protocols that send a part of what there is to send.
#include <algorithm>
#include <cstdint>

#include "bench/train/pacing.hpp"
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/gaia.hpp"
#include "rubato/protocol/lag.hpp"
#include "rubato/protocol/streaming_diloco.hpp"

namespace rubato::bench {

run_result run_gaia(training const& job, protocol_parameters const& with) {
  return run_protocol(gaia{.staleness = staleness{with.staleness}}, job);
}

run_result run_streaming_diloco(training const& job, protocol_parameters const& with) {
  std::int64_t const steps = local_steps_of(job, with), fragments = std::min<std::int64_t>(4, steps);
  return run_every(streaming_diloco{.steps = steps, .fragments = fragments}, steps / fragments, job);
}

run_result run_lag(training const& job, protocol_parameters const&) { return run_protocol(lag{}, job); }

}  // namespace rubato::bench
