// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

#include "rubato/peer/concepts.hpp"

namespace rubato {

/// Nothing but the gather bounds the gap between neighbors. Source: 002 Theorem 1.
struct free_gap {
  static constexpr bool acks = false;
  static constexpr bool tokens = false;
};
static_assert(gap_policy<free_gap>);

/// NOTIFY-ACK: the next update to a neighbor waits until it has reduced the last one. At most 2
/// iterations ahead of a neighbor that it sends to. Source: 002 §3.3.
struct notify_ack {
  static constexpr bool acks = true;
  static constexpr bool tokens = false;
};
static_assert(gap_policy<notify_ack>);

/// Token queues: at most `iterations` (max_ig, 1 or more) ahead of a neighbor that it sends to.
/// Source: 002 §4.2, Theorem 2.
struct token_queues {
  std::int64_t iterations = 4;  ///< max_ig: how many iterations a peer may be ahead of a neighbor; at least 1

  static constexpr bool acks = false;
  static constexpr bool tokens = true;
  [[nodiscard]] constexpr std::int64_t gap_max() const noexcept { return iterations; }
};
static_assert(gap_policy<token_queues>);

}  // namespace rubato
