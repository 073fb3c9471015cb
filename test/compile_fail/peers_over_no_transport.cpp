// expect within 15: peers need a transport with peer_runtime_type and open_peers(peer_setup): in_process, simulated,
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/topologies.hpp>

#include <vector>

namespace rb = rubato;

struct pigeons {
  std::uint32_t workers = 4;
};

rb::peer_group group{pigeons{}, rb::ring(4), rb::hop(), rb::sgd{.rate = 0.1}, std::vector<float>(8)};
