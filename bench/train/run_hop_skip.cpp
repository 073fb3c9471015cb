// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/run_peers.hpp"

namespace rubato::bench {

run_result run_hop_skip(training const& job, protocol_parameters const& with) {
  gather_all_but const gather{static_cast<std::uint32_t>(with.peers.backups)};
  bounded_jump const jump{.trigger = with.peers.jump_trigger,
                          .iterations_max = with.peers.jump_max};
  return run_peers(hop(gather, peer_tokens(with), jump, with.peers.order), "hop_skip", staleness{0},
                   job, with);
}

}  // namespace rubato::bench
