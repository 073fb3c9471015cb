// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/run_peers.hpp"

namespace rubato::bench {

run_result run_hop_stale(training const& job, protocol_parameters const& with) {
  staleness const s{with.peers.staleness};
  return run_peers(hop(gather_newest{s}, peer_tokens(with), with.peers.order), "hop_stale", s, job,
                   with);
}

}  // namespace rubato::bench
