// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstdint>

namespace rubato {

/// What a server process counts of itself, for whoever watches it from another thread.
struct server_stats {
  using number = std::atomic<std::uint64_t>;

  number commits = 0;         ///< applied, since the process began
  number commits_in_memory = 0;  ///< of these, with updates that were read where they lie, in the worker's memory
  number refused = 0;         ///< commits and reads that were not taken
  number reads = 0;           ///< answered
  number reads_in_memory = 0; ///< of these, answered where they lie, in memory that the reader can see
  number reads_waiting = 0;   ///< held back by the protocol now, what a worker reads together as one
  number bytes_received = 0;  ///< of updates
  number bytes_sent = 0;      ///< of parameters
  number connections = 0;     ///< worker processes that are connected now
  number connections_lost = 0;
  number reconnects = 0;      ///< connections that came back after a break
  number not_finite = 0;      ///< worker processes cut off for NaN or infinity
  number over_limits = 0;     ///< worker processes cut off for rows or bytes beyond `net::server_limits`
  number table_bytes = 0;     ///< of its tables, versions included; every second or so, as the next two
  number held_commits = 0;    ///< held back by the protocol
  number held_bytes = 0;      ///< of these
  number ready = 0;           ///< 1 once the coordinator has given it its place, and workers may come
  number stage = 0;           ///< the run under way, or the last one
  number clock = 0;           ///< the least clock of its workers

  static void add(number& to, std::uint64_t more) noexcept {
    to.store(to.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  static void set(number& to, std::uint64_t value) noexcept {
    to.store(value, std::memory_order_relaxed);
  }
};

}  // namespace rubato
