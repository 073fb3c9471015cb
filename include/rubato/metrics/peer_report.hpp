// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/core/time.hpp"

namespace rubato {

/// What a peer counted of a run.
struct peer_counters {
  std::uint64_t iterations = 0;       ///< made: their gradients computed
  std::uint64_t jumps = 0;  ///< how often it left iterations out
  std::uint64_t jumped_over = 0;      ///< iterations that jumps left out
  std::uint64_t updates_sent = 0;  ///< parameters sent to neighbors, one message each
  std::uint64_t updates_spared = 0;   ///< not sent, because the receiver had left the iteration
  std::uint64_t updates_reduced = 0;  ///< of neighbors
  std::uint64_t updates_late = 0;     ///< arrived too old to count
  std::size_t queue_peak = 0;         ///< most updates in the queue at one time
};

/// What a peer measured of itself. `compute + wait` is its run time: computing includes reducing, and
/// sending, which does not hold a peer up.
struct peer_metrics : peer_counters {
  duration compute{};  ///< computing, reducing and sending
  duration wait_updates{};  ///< for updates of its neighbors
  duration wait_tokens{};   ///< for tokens, or acknowledgements
  std::uint64_t bytes_sent = 0;  ///< without framing

  /// The time that the protocol held it up for, whatever for.
  [[nodiscard]] duration wait() const noexcept { return wait_updates + wait_tokens; }
};

/// What a run of peers measured.
struct peer_report {
  bool virtual_time = false;  ///< whether times are those of a simulation
  duration elapsed{};               ///< from the start to the last peer's end
  std::vector<peer_metrics> peers;  ///< by rank
  std::uint64_t crashes = 0;        ///< peers lost
  std::uint64_t events = 0;         ///< simulator only: events processed

  /// Iterations made by all peers together.
  [[nodiscard]] std::uint64_t iterations() const noexcept {
    std::uint64_t sum = 0;
    for (peer_metrics const& p : peers) sum += p.iterations;
    return sum;
  }
};

namespace detail {
/// The greater of two distances; one that is no number is greater than all.
[[nodiscard]] inline double farther(double greatest, double distance) noexcept {
  return std::isnan(distance) ? distance : std::max(greatest, distance);
}
}  // namespace detail

}  // namespace rubato
