// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "rubato/core/time.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/peer.hpp"
#include "rubato/peer/peer_endpoint.hpp"
#include "rubato/peer/peer_node.hpp"

namespace rubato {

/// What a transport is given to run peers: what `peer_group` was made of, as values.
struct peer_setup {
  std::uint32_t count = 0;  ///< peers: nodes of the graph
  /// Makes the protocol's half of the peer of this rank. Called while `open_peers` runs, not later.
  std::function<std::unique_ptr<peer_node>(std::uint32_t rank)> make_node;
  /// Makes a peer's handle, with the type of its parameters.
  std::function<std::unique_ptr<peer_core>(peer_node& node, peer_endpoint& link, std::uint32_t rank,
                                           std::uint32_t count, std::uint64_t seed)>
      make_peer;
};

/// A transport at work for peers. What `peer_group` holds; made by a transport's `open_peers`.
///
/// Thread safety: one thread makes and runs it. Bodies may call everything but `run` while one is under
/// way, and where peers are threads any other thread as well.
class peer_runtime {
 public:
  /// What every peer runs.
  using body_type = std::function<void(peer_core&)>;

  virtual ~peer_runtime() = default;

  /// Runs `body` on every peer, and returns when all have ended. A body that throws ends the run for all of
  /// them, and its exception is rethrown here. @throws usage_error when a run is under way
  virtual peer_report run(body_type body) = 0;
  /// Ends the run: every peer's next call unwinds its body, and `run` returns.
  virtual void stop() noexcept = 0;
  /// Time since the run began.
  [[nodiscard]] virtual time_point now() const = 0;
  /// Whether the peer of this rank has died in the run under way, or in the last one.
  [[nodiscard]] virtual bool crashed(std::uint32_t rank) const noexcept = 0;
  /// Calls `f(node)` while nothing happens to it.
  virtual void look_at(std::uint32_t rank, std::function<void(peer_node const&)> const& f) const = 0;
};

}  // namespace rubato
