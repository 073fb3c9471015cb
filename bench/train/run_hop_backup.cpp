// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/run_peers.hpp"

namespace rubato::bench {

run_result run_hop_backup(training const& job, protocol_parameters const& with) {
  gather_all_but const gather{static_cast<std::uint32_t>(with.peers.backups)};
  return run_peers(hop(gather, peer_tokens(with), with.peers.order), "hop_backup", staleness{0},
                   job, with);
}

}  // namespace rubato::bench
