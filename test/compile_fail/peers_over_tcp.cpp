// expect within 15: peers need a transport with peer_runtime_type and open_peers(peer_setup): in_process or simulated,
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/transport/tcp.hpp>

#include <vector>

namespace rb = rubato;

rb::peer_group group{rb::tcp{}, rb::ring(4), rb::hop(), rb::sgd{.rate = 0.1}, std::vector<float>(8)};
