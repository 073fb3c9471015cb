// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>

#include "rubato/peer/peer_node.hpp"

namespace rubato {

/// Asynchronous decentralized parallel SGD: in each iteration a peer of one side averages with a random
/// neighbor on the other side, whatever iteration that is in. Nobody waits for anything but an answer.
/// Only a crash in the middle of an exchange leaves it half done. A baseline for Hop; on bipartite
/// graphs only. Source: Lian et al., ICML 2018, as in 002 §5.
struct ad_psgd {
  std::uint64_t seed = 1;  ///< of the choice of neighbors

  /// @throws option_error where the graph is directed, or has edges within a side
  [[nodiscard]] std::unique_ptr<peer_node> make_node(node_setup const& setup) const;
};
static_assert(peer_protocol<ad_psgd>);

}  // namespace rubato
