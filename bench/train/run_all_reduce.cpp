// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/run_peers.hpp"
#include "rubato/peer/all_reduce.hpp"

namespace rubato::bench {

run_result run_all_reduce(training const& job, protocol_parameters const& with) {
  return run_peers(rubato::all_reduce{}, "all_reduce", staleness{0}, job, with);
}

}  // namespace rubato::bench
