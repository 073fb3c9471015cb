// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/graph.hpp"
#include "rubato/peer/local_step.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/peer_agreement.hpp"
#include "rubato/run/peer_runtime.hpp"
#include "rubato/transport/concepts.hpp"

namespace rubato {

/// Peers that train without a server: a transport, a graph, a protocol, a local step and the parameters
/// that all begin with. What `cluster` is with servers.
///
///     rubato::peer_group group{rubato::in_process{}, rubato::ring_based(16),
///                              rubato::hop(rubato::gather_all_but{1}, rubato::token_queues{8}),
///                              rubato::sgd{.rate = 0.1, .momentum = 0.9}, w0};
///     group.run([&](auto& peer) {
///       for (auto k : peer.iterations(1000)) peer.step(gradient(k, peer.parameters()));
///     });
///     std::vector<float> const w = group.parameters();
///
/// The graph says how many peers there are. Runs follow one another: each starts at iteration 0, from
/// the parameters that the last one left.
/// Errors: option_error for what cannot be meant; lost_error from `run` when a peer is gone that the
/// protocol cannot do without.
/// Thread safety: one thread makes and runs it. During a run bodies may call `observe`, `spread`, `stop`
/// and `now`, and in process any other thread as well.
/// Memory: one block of parameters per peer, and one per update under way; neighbors share them.
template <class T, class Transport, class Protocol, class Step>
class peer_group {
  static_assert(peer_transport<Transport>,
                "peers need a transport with peer_runtime_type and open_peers(peer_setup): in_process, simulated, "
                "tcp or mpi");
  static_assert(peer_protocol<Protocol>, "a decentralized protocol needs make_node(node_setup)");
  static_assert(std::floating_point<T> && parameter<T>, "peers' parameters are of float or double");
  static_assert(local_step<Step>,
                "a peer's step needs start<T>(size), as the concept local_step says: plain_step, sgd, or your own");

 public:
  /// What the transport runs peers with, such as `simulated_peer_runtime`.
  using runtime_type = typename Transport::peer_runtime_type;
  /// What a body is given: one per peer.
  using peer_type = peer<T>;

  /// @param transport has as many workers as the graph has nodes; in one process they may be left out
  /// @param mixing    the graph and what its edges weigh
  /// @param initial   all peers begin with these; not empty
  peer_group(Transport const& transport, mixing_matrix mixing, Protocol const& p, Step const& step,
             std::vector<T> const& initial)
      : mixing_(std::move(mixing)), runtime_(detail::opened(transport.open_peers(setup(p, step, initial)))) {}

  /// With the usual weights of the graph, see `mixing_matrix::automatic`.
  peer_group(Transport const& transport, graph const& g, Protocol const& p, Step const& step,
             std::vector<T> const& initial)
      : peer_group(transport, mixing_matrix::automatic(g), p, step, initial) {}

  peer_group(peer_group const&) = delete;
  peer_group& operator=(peer_group const&) = delete;

  /// Runs `body(peer)` on every peer and returns what was measured when all have ended. When a body
  /// throws, the run ends for all and the exception is rethrown. One body serves all peers, in process
  /// concurrently: what it captures and changes it must guard.
  template <class Body>
  peer_report run(Body body) {
    return runtime_->run([&body](peer_core& p) { body(static_cast<peer_type&>(p)); });
  }

  /// The consensus: the average of the parameters of all peers that live. O(peers · size). See `observe`.
  [[nodiscard]] std::vector<T> parameters() const { return observe(); }
  /// Those of one peer. @throws usage_error where it is in another process
  [[nodiscard]] std::vector<T> parameters(std::uint32_t rank) const {
    return copy_of(share(rank)->values);
  }
  /// How far peers are from each other: the greatest Euclidean distance of one from the average; NaN where parameters
  /// are none, or infinite.
  /// O(peers · size). Over processes as `observe`, and 0 where that is of the own peer.
  [[nodiscard]] double spread() const {
    if (auto const known = runtime_->consensus()) return known->spread;
    std::vector<T> const average = observe();
    double greatest = 0;
    for_each_live([&](std::span<T const> x) {
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        double const d = static_cast<double>(x[i]) - static_cast<double>(average[i]);
        sum += d * d;
      }
      greatest = detail::farther(greatest, std::sqrt(sum));
    });
    return greatest;
  }

  /// The average for a reader that is no peer: loss curves, checks. During a run it waits for nobody
  /// and costs no virtual time; each peer's part is whole, of the iteration that it is in.
  ///
  /// Over processes every one has the average of all once a run has come to its end, or was stopped: then they send
  /// their parameters to the coordinator, one after another, and get it back. During a run, before the first one, and
  /// after one that failed, it is the own peer's parameters only. @throws usage_error in a process without peers
  [[nodiscard]] std::vector<T> observe() const {
    if (auto const known = runtime_->consensus()) return copy_of(known->average->values);
    std::vector<double> sum;
    std::size_t peers = 0;
    for_each_live([&](std::span<T const> x) {
      sum.resize(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) sum[i] += static_cast<double>(x[i]);
      ++peers;
    });
    std::vector<T> average(sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i)
      average[i] = static_cast<T>(sum[i] / static_cast<double>(peers));
    return average;
  }

  [[nodiscard]] std::uint32_t size() const noexcept { return mixing_.topology().size(); }
  /// The weights with which neighbors' parameters are averaged: those given, or the graph's own.
  [[nodiscard]] mixing_matrix const& mixing() const noexcept { return mixing_; }
  /// Ends the run under way: every peer's next call unwinds its body, and `run` returns.
  void stop() { runtime_->stop(); }
  /// Time since the run began, wall or virtual.
  [[nodiscard]] time_point now() const { return runtime_->now(); }
  /// What the transport made for this group, for what only that transport can do.
  [[nodiscard]] runtime_type& runtime() noexcept { return *runtime_; }
  /// The same, for reading.
  [[nodiscard]] runtime_type const& runtime() const noexcept { return *runtime_; }

 private:
  [[nodiscard]] peer_setup setup(Protocol const& p, Step const& step,
                                 std::vector<T> const& initial) const {
    if (initial.empty()) throw option_error("peer_group: there are no initial parameters");
    return {.count = size(),
            .make_node = [this, &p, &step, &initial](std::uint32_t rank) {
              auto made = p.make_node({.mixing = mixing_,
                                       .self = worker_id{rank},
                                       .element = element_type_of<T>(),
                                       .initial = std::as_bytes(std::span(initial)),
                                       .make_step = [&step]() -> std::unique_ptr<peer_step> {
                                         return std::make_unique<detail::peer_step_of<T, Step>>(step);
                                       }});
              if (made == nullptr)
                throw option_error("peer_group: make_node() gives nothing for peer " + std::to_string(rank) +
                                   ", expected a node");
              return made;
            },
            .make_peer = [](peer_node& node, peer_endpoint& link, std::uint32_t rank, std::uint32_t count,
                            std::uint64_t seed) -> std::unique_ptr<peer_core> {
              return std::make_unique<peer_type>(node, link, rank, count, seed);
            },
            .element = element_type_of<T>(),
            .size = initial.size(),
            .agreement = [this, &step, &initial] {
              detail::peer_step_of<T, Step> copy(step);
              return agreement_of_peers(mixing_, element_type_of<T>(), std::as_bytes(std::span(initial)), copy);
            }};
  }

  [[nodiscard]] shared_update share(std::uint32_t rank) const {
    if (rank >= size())
      throw usage_error(errc::unknown_key, "parameters: there is no peer " + std::to_string(rank) +
                                               " among " + std::to_string(size()));
    shared_update x;
    runtime_->look_at(rank, [&](peer_node const& n) { x = n.share(); });
    return x;
  }
  [[nodiscard]] static std::vector<T> copy_of(raw_array const& x) {
    auto const values = x.template as<T>();
    return {values.begin(), values.end()};
  }
  /// All of them, should none live; in this process. Where there is none, to look at one says so.
  template <class F>
  void for_each_live(F f) const {
    if (!runtime_->has_peers()) (void)share(0);
    bool any = false;
    for (std::uint32_t i = 0; i < size(); ++i) any = any || (runtime_->has(i) && !runtime_->crashed(i));
    for (std::uint32_t i = 0; i < size(); ++i)
      if (runtime_->has(i) && (!any || !runtime_->crashed(i))) f(share(i)->values.template as<T>());
  }

  mixing_matrix mixing_;
  std::unique_ptr<runtime_type> runtime_;
};

}  // namespace rubato
