// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "rubato/core/element.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/time.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/peer.hpp"
#include "rubato/peer/peer_endpoint.hpp"
#include "rubato/peer/peer_node.hpp"
#include "rubato/storage/shared_update.hpp"

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
  element_type element{};  ///< of the parameters
  std::size_t size = 0;    ///< how many there are
  /// What all peers must agree on beside what their nodes say, in words: see `agreement_of_peers`. As `make_node`.
  std::function<std::string()> agreement;

  /// @param workers a transport's option: so many, or 1 for as many as there are @throws option_error
  void check_workers(std::uint32_t workers) const {
    if (workers != 1 && workers != count)
      throw option_error("peer_group: the graph has " + std::to_string(count) + " nodes, but workers is " +
                         std::to_string(workers) + ", expected as many, or leave workers out");
  }
};

/// What all peers' parameters come to, where they are in several processes.
struct peer_consensus {
  shared_update average;  ///< of those that lived when the run ended
  double spread = 0;      ///< the greatest Euclidean distance of one from it
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
  /// Whether peers live in this process at all.
  [[nodiscard]] virtual bool has_peers() const noexcept { return true; }
  /// Whether the peer of this rank lives in this process: others cannot be looked at.
  [[nodiscard]] virtual bool has(std::uint32_t /*rank*/) const noexcept { return true; }
  /// The average, where there are others and the last run has come to its end; else it is computed by looking at all.
  [[nodiscard]] virtual std::optional<peer_consensus> consensus() const { return std::nullopt; }
  /// Calls `f(node)` while nothing happens to it. @throws usage_error where it is not in this process
  virtual void look_at(std::uint32_t rank, std::function<void(peer_node const&)> const& f) const = 0;
};

}  // namespace rubato
