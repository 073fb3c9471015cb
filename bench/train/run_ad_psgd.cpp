// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/run_peers.hpp"
#include "rubato/peer/ad_psgd.hpp"

namespace rubato::bench {

run_result run_ad_psgd(training const& job, protocol_parameters const& with) {
  return run_peers(rubato::ad_psgd{.seed = job.seed}, "ad_psgd", staleness::infinite(), job, with);
}

}  // namespace rubato::bench
