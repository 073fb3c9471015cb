// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/endpoint.hpp"

namespace rubato {

/// What a training body holds in decentralized training: one per peer, used by that peer only.
///
///     group.run([&](auto& peer) {
///       for (auto k : peer.iterations(1000)) peer.step(gradient(k, peer.parameters()));
///     });
///
/// A handle is of use while its run is under way.
template <class Node, class Endpoint>
class peer {
  static_assert(peer_endpoint<Endpoint, typename Node::message>);
  static_assert(peer_node<Node, Endpoint>);

 public:
  using value_type = typename Node::value_type;

  peer(Node& node, Endpoint& link, std::uint32_t rank, std::uint32_t count, std::uint64_t seed)
      : node_(node),
        link_(link),
        rank_(rank),
        count_(count),
        random_(seed, rank),
        began_(link.now()) {}
  peer(peer const&) = delete;
  peer& operator=(peer const&) = delete;

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  /// All peers of the run.
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  /// The iteration that it is in.
  [[nodiscard]] std::int64_t iteration() const noexcept { return node_.iteration(); }
  /// A random stream of this peer's own, the same in every run of one seed.
  [[nodiscard]] random_stream& random() noexcept { return random_; }
  [[nodiscard]] time_point now() const { return link_.now(); }

  /// The parameters of this iteration: what the gradient is to be computed at. Valid, and unchanged,
  /// until `step`.
  [[nodiscard]] std::span<value_type const> parameters() const noexcept { return node_.parameters(); }

  class iteration_range;

  /// The iterations 0 … n − 1, but for those that the peer jumps over; neighbors take part from here
  /// on. Each needs one `step`. Once in a run; all peers make the same number. Who ends early, by
  /// leaving the loop or with a smaller n, counts as lost to those that still need it.
  /// @throws usage_error the second time; option_error for n < 0; lost_error as `step` does
  [[nodiscard]] iteration_range iterations(std::int64_t n) {
    if (n < 0)
      throw option_error("iterations: must be 0 or more, but is " + std::to_string(n));
    require_open("iterations");
    if (begun_) throw usage_error(errc::bad_option, "iterations: only once in a run of a peer");
    begun_ = true;
    failed_ = true;  // until it has succeeded
    node_.begin(link_, n);
    failed_ = false;
    return iteration_range(*this);
  }

  /// Ends the iteration: sends, averages, applies the gradient, in the protocol's order, and enters the
  /// next one. Waits as the protocol says.
  /// @param gradient one number per parameter; what it does is up to the group's `local_step`
  /// @param work     what computing it has cost, in the simulator's units
  /// @throws usage_error for a wrong size or work, outside of `iterations`, or a second time in one;
  ///   lost_error when a neighbor is gone that the protocol cannot do without: a body that catches it
  ///   has no further iterations
  void step(std::span<value_type const> gradient, double work = 1) {
    require_open("step");
    if (!begun_ || stepped_ || failed_ || node_.ended())
      throw usage_error(errc::bad_option, "step: must be called once in each of the iterations");
    if (gradient.size() != node_.parameters().size())
      throw usage_error(errc::wrong_size,
                        "step: a gradient of " + std::to_string(gradient.size()) +
                            " numbers, expected " + std::to_string(node_.parameters().size()));
    if (!(work >= 0) || !std::isfinite(work))
      throw usage_error(errc::bad_option, "step: work must be finite and 0 or more");
    link_.charge(work);
    stepped_ = true;
    failed_ = true;  // until it has succeeded
    node_.step(link_, gradient);
    failed_ = false;
  }

  /// What it has measured so far, since the run began.
  [[nodiscard]] peer_metrics metrics() const {
    peer_metrics m;
    m.bytes_sent = bytes_sent_;
    link_.guard([&] { static_cast<peer_counters&>(m) = node_.counters(); });
    m.wait_updates = node_.waits().for_updates;
    m.wait_tokens = node_.waits().for_tokens;
    m.compute = ((open_ ? link_.now() : ended_) - began_) - m.wait();
    return m;
  }

  class iteration_range {
   public:
    class iterator {
     public:
      using value_type = std::int64_t;
      using difference_type = std::ptrdiff_t;

      iterator() = default;
      explicit iterator(peer* p) noexcept : peer_(p) {}
      [[nodiscard]] std::int64_t operator*() const noexcept { return peer_->iteration(); }
      iterator& operator++() {
        peer_->next();
        return *this;
      }
      void operator++(int) { ++*this; }
      friend bool operator==(iterator const& i, std::default_sentinel_t) noexcept {
        return i.at_end();
      }

     private:
      [[nodiscard]] bool at_end() const noexcept { return peer_->failed_ || peer_->node_.ended(); }
      peer* peer_ = nullptr;
    };

    [[nodiscard]] iterator begin() const noexcept { return iterator(&peer_); }
    [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

   private:
    friend class peer;
    explicit iteration_range(peer& p) noexcept : peer_(p) {}
    peer& peer_;
  };

  // ---- for the transport

  /// The run is over for this peer; whoever has kept the handle gets an error.
  void end() noexcept {
    open_ = false;
    ended_ = link_.now();
  }
  void count_sent(std::uint64_t bytes) noexcept { bytes_sent_ += bytes; }

 private:
  void require_open(char const* call) const {
    if (!open_)
      throw usage_error(errc::stale_handle, std::string(call) + ": the run of this peer is over");
  }
  void next() {
    if (!stepped_)
      throw usage_error(errc::bad_option, "iterations: iteration " + std::to_string(iteration()) +
                                              " had no step()");
    stepped_ = false;
  }

  Node& node_;
  Endpoint& link_;
  std::uint32_t rank_;
  std::uint32_t count_;
  random_stream random_;
  time_point began_;
  time_point ended_{};
  std::uint64_t bytes_sent_ = 0;
  bool begun_ = false;
  bool stepped_ = false;
  bool failed_ = false;  ///< left an iteration in the middle: there is no going on
  bool open_ = true;
};

}  // namespace rubato
