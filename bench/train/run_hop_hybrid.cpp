// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/run_peers.hpp"

namespace rubato::bench {

run_result run_hop_hybrid(training const& job, protocol_parameters const& with) {
  staleness const s{with.peers.staleness};
  gather_hybrid const gather{s, static_cast<std::uint32_t>(with.peers.backups)};
  return run_peers(hop(gather, peer_tokens(with), with.peers.order), "hop_hybrid", s, job, with);
}

}  // namespace rubato::bench
