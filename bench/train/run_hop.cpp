// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/run_peers.hpp"

namespace rubato::bench {

run_result run_hop(training const& job, protocol_parameters const& with) {
  iteration_order const order = with.peers.order;
  if (!with.peers.gap_max) return run_peers(hop(order), "hop", staleness{0}, job, with);
  return run_peers(hop(peer_tokens(with), order), "hop", staleness{0}, job, with);
}

}  // namespace rubato::bench
