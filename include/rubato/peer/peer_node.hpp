// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rubato/core/block_memory.hpp"
#include "rubato/core/element.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/message.hpp"
#include "rubato/peer/peer_endpoint.hpp"

namespace rubato {

class mixing_matrix;

/// A local step as a value, and what it keeps for one peer: how a gradient changes parameters, whatever
/// their type. See `local_step`.
class peer_step {
 public:
  virtual ~peer_step() = default;
  /// Begins anew for `size` parameters.
  virtual void start(std::size_t size) = 0;
  /// Adds the step to `to`: `count` parameters, from number `first` on. `x` is what the gradient was
  /// computed at; all three point to the first of them.
  virtual void apply(std::size_t first, std::size_t count, std::byte const* x, std::byte const* gradient,
                     std::byte* to) = 0;
};

/// What a node is made of.
struct node_setup {
  mixing_matrix const& mixing;  ///< the graph, with its weights
  worker_id self;  ///< which of its nodes this is
  element_type element;  ///< of the parameters
  std::span<std::byte const> initial;  ///< parameters
  /// How gradients change them.
  std::function<std::unique_ptr<peer_step>()> make_step;
};

/// What a decentralized protocol does for one peer: the machine, and the arithmetic on parameters, which
/// are bytes to all but itself. Models: `hop_node`, `push_node`, `ad_psgd_node`, `all_reduce_node`.
///
/// Called by the transport, under the guard:
///
/// | function                       | what it does |
/// |--------------------------------|--------------|
/// | `deliver(from, message, out)`  | takes a message; answers go to `out`; false for one that no correct peer sends |
/// | `lose(worker)`                 | that peer has died |
/// | `leave(out)`                   | the body has ended; if too early, neighbors have to know |
/// | `can_go_on()`                  | what it waits for is there |
/// | `awaits()`                     | whom it waits for, for messages to who runs it |
/// | `share()`                      | its parameters as they are now |
///
/// Called by the peer itself, with its endpoint:
///
/// | function                       | what it does |
/// |--------------------------------|--------------|
/// | `reset()`                      | before a run: as if none had been, but for the parameters |
/// | `begin(e, iterations)`         | enters iteration 0, or ends |
/// | `step(e, gradient)`            | ends an iteration and enters the next, or ends |
/// | `parameters()`                 | what the gradient is to be computed at; unchanged until `step` |
/// | `iteration()`, `ended()`, `counters()`, `waits()` | |
///
/// `bytes(message)` is what a message carries, without framing. A node that `use`s the memory it is given saves a copy
/// of what it sends between processes.
class peer_node {
 public:
  virtual ~peer_node() = default;

  [[nodiscard]] virtual bool deliver(worker_id from, peer_message&& m, outbox& out) = 0;
  virtual void lose(worker_id w) = 0;
  virtual void leave(outbox& out) = 0;
  [[nodiscard]] virtual bool can_go_on() const noexcept = 0;
  [[nodiscard]] virtual std::vector<worker_id> awaits() const { return {}; }
  [[nodiscard]] virtual shared_update share() const = 0;

  virtual void reset() = 0;
  virtual void begin(peer_endpoint& e, std::int64_t iterations) = 0;
  virtual void step(peer_endpoint& e, std::span<std::byte const> gradient) = 0;
  [[nodiscard]] virtual std::span<std::byte const> parameters() const noexcept = 0;
  [[nodiscard]] virtual std::int64_t iteration() const noexcept = 0;
  [[nodiscard]] virtual bool ended() const noexcept = 0;
  [[nodiscard]] virtual peer_counters counters() const noexcept = 0;
  [[nodiscard]] virtual peer_waits waits() const noexcept = 0;

  [[nodiscard]] virtual std::uint64_t bytes(peer_message const& m) const noexcept = 0;
  /// Other processes of this machine may look at that memory: parameters that are sent from there need not be copied
  /// for them. For what is made from now on, where it has room; before a run, under the guard.
  virtual void use(std::shared_ptr<block_memory> const& /*memory*/) {}
  /// Whether it uses `peer_endpoint::sum` where there is one.
  [[nodiscard]] virtual bool sums() const noexcept { return false; }
  /// What the peers of a run in several processes must agree on about the protocol, in words: the same at every node,
  /// and with any compiler. Not asked where all are in one process.
  [[nodiscard]] virtual std::string agreement() const { return "one that says nothing of itself"; }
};

/// A decentralized protocol: makes the nodes of peers. Models: what `hop` gives, `push_sum`, `prague`,
/// `gossip`, `ad_psgd`, `all_reduce`.
template <class P>
concept peer_protocol = std::copyable<P> && requires(P const p, node_setup const& setup) {
  { p.make_node(setup) } -> std::same_as<std::unique_ptr<peer_node>>;
};

}  // namespace rubato
