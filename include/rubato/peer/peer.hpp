// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <thread>

#include "rubato/core/random.hpp"
#include "rubato/core/time.hpp"
#include "rubato/metrics/peer_report.hpp"

namespace rubato {

class peer_endpoint;
class peer_node;

/// A peer of a run, as far as it does not matter what its parameters are: the part of `peer` that is
/// compiled once.
class peer_core {
 public:
  /// Made by the transport, of a node of the protocol and an end of its own.
  peer_core(peer_node& node, peer_endpoint& link, std::uint32_t rank, std::uint32_t count,
            std::uint64_t seed);
  peer_core(peer_core const&) = delete;
  peer_core& operator=(peer_core const&) = delete;
  virtual ~peer_core() = default;

  /// This peer's place in the graph, from 0.
  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  /// All peers of the run.
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  /// The iteration that it is in.
  [[nodiscard]] std::int64_t iteration() const noexcept;
  /// A random stream of this peer's own, the same in every run of one seed.
  [[nodiscard]] random_stream& random() noexcept { return random_; }
  /// Time since the run began, wall or virtual.
  [[nodiscard]] time_point now() const;

  class iteration_range;

  /// The iterations 0 … n − 1, but for those that the peer jumps over; neighbors take part from here
  /// on. Each needs one `step`. Once in a run; all peers make the same number. Who ends early, by
  /// leaving the loop or with a smaller n, counts as lost to those that still need it.
  /// @throws usage_error the second time; option_error for n < 0; lost_error as `step` does
  [[nodiscard]] iteration_range iterations(std::int64_t n);

  /// What it has measured so far, since the run began.
  [[nodiscard]] peer_metrics metrics() const;

  /// What `iterations` gives: a range of numbers, for one loop.
  class iteration_range {
   public:
    /// An input iterator: `++` goes on to the next iteration, once `step` has ended the one before.
    class iterator {
     public:
      using value_type = std::int64_t;
      using difference_type = std::ptrdiff_t;

      iterator() = default;
      /// At the iteration that the peer is in.
      explicit iterator(peer_core* p) noexcept : peer_(p) {}
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
      [[nodiscard]] bool at_end() const noexcept { return peer_->at_end(); }
      peer_core* peer_ = nullptr;
    };

    [[nodiscard]] iterator begin() const noexcept { return iterator(&peer_); }
    [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

   private:
    friend class peer_core;
    explicit iteration_range(peer_core& p) noexcept : peer_(p) {}
    peer_core& peer_;
  };

  // ---- for the transport

  /// The run is over for this peer; whoever has kept the handle gets an error.
  void end() noexcept;
  /// The transport has sent so many bytes for it; for the metrics.
  void count_sent(std::uint64_t bytes) noexcept { bytes_sent_ += bytes; }

 protected:
  /// The parameters of this iteration, untyped.
  [[nodiscard]] std::span<std::byte const> parameter_bytes() const noexcept;
  /// @param given how many numbers the gradient has, and `expected` how many there should be
  void step(std::span<std::byte const> gradient, std::size_t given, std::size_t expected, double work);

 private:
  void require_open(char const* call) const;
  void require_thread() const;
  void next();
  [[nodiscard]] bool at_end() const noexcept;

  peer_node& node_;
  peer_endpoint& link_;
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
  std::thread::id thread_;  ///< the body's, from `iterations` on
};

/// What a training body holds in decentralized training: one per peer, used by that peer only.
///
///     group.run([&](auto& peer) {
///       for (auto k : peer.iterations(1000)) peer.step(gradient(k, peer.parameters()));
///     });
///
/// A handle is of use while its run is under way, in the thread that has called `iterations`.
template <std::floating_point T>
class peer final : public peer_core {
 public:
  using value_type = T;
  using peer_core::peer_core;

  /// The parameters of this iteration: what the gradient is to be computed at. Valid, and unchanged,
  /// until `step`.
  [[nodiscard]] std::span<T const> parameters() const noexcept {
    auto const bytes = parameter_bytes();
    return {reinterpret_cast<T const*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  /// Ends the iteration: sends, averages, applies the gradient, in the protocol's order, and enters the
  /// next one. Waits as the protocol says.
  /// @param gradient one number per parameter; what it does is up to the group's `local_step`
  /// @param work     what computing it has cost, in the simulator's units
  /// @throws usage_error for a wrong size or work, outside of `iterations`, a second time in one, or in another thread;
  ///   lost_error when a neighbor is gone that the protocol cannot do without: a body that catches it
  ///   has no further iterations
  void step(std::span<T const> gradient, double work = 1) {
    peer_core::step(std::as_bytes(gradient), gradient.size(), parameters().size(), work);
  }
};

}  // namespace rubato
