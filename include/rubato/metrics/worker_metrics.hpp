// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rubato/core/time.hpp"

namespace rubato {

/// What a worker measured of itself. `compute + send + wait` is its run time (rules §8): wait is
/// what the protocol held it up for, send is moving updates and parameters, compute is the rest.
struct worker_metrics {
  duration compute{};  ///< the training body's own time
  duration send{};  ///< moving updates and parameters
  duration wait{};  ///< held up by the protocol

  std::uint64_t steps = 0;        ///< local steps
  std::uint64_t commits = 0;      ///< updates sent
  // Reads by level (001 §3): pulls of which its own cache had not all are fetches, and a fetch asks each server that
  // has some of it, unless its process's cache answers for that one.
  std::uint64_t pulls = 0;         ///< reads by the training body
  std::uint64_t fetches = 0;       ///< reads that went beyond the worker's own cache
  std::uint64_t requests = 0;      ///< questions to servers
  std::uint64_t process_hits = 0;  ///< questions that were not asked: its process had the answer, or had asked already
  std::uint64_t pushes = 0;  ///< calls of `push` by the training body
  // Payload, without framing. What a process fetches is counted once, for the worker in whose name it is asked for.
  std::uint64_t bytes_sent = 0;      ///< updates, and which rows are asked for
  std::uint64_t bytes_received = 0;  ///< parameters, and cuts

  /// `staleness[k]`: how many first reads of a clock used a copy k clocks behind the reader; the
  /// last entry also counts all beyond.
  std::array<std::uint64_t, 65> staleness{};

  /// The worker's run time.
  [[nodiscard]] duration total() const noexcept { return compute + send + wait; }

  /// Adds up what workers have measured.
  worker_metrics& operator+=(worker_metrics const& o) {
    compute += o.compute;
    send += o.send;
    wait += o.wait;
    steps += o.steps;
    commits += o.commits;
    pulls += o.pulls;
    fetches += o.fetches;
    requests += o.requests;
    process_hits += o.process_hits;
    pushes += o.pushes;
    bytes_sent += o.bytes_sent;
    bytes_received += o.bytes_received;
    for (std::size_t i = 0; i < staleness.size(); ++i) staleness[i] += o.staleness[i];
    return *this;
  }
};

}  // namespace rubato
