// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstdint>

#include "rubato/core/ids.hpp"
#include "rubato/core/mix.hpp"

namespace rubato {

/// What a partition knows of a table.
struct table_shape {
  std::uint64_t rows;     ///< keys are 0 … rows − 1; 0 when any 64-bit key may occur
  std::uint32_t servers;  ///< at least 1
};

/// Which server holds a row.
///
/// | expression               | result      | meaning |
/// |--------------------------|-------------|---------|
/// | `p.server_of(k, shape)`  | `server_id` | the row's server, below `shape.servers` |
///
/// Pure: the same answer on every machine of the run. For a bounded table it is asked once per key
/// when the cluster is made; for an unbounded one on every access.
/// Models: `range`, `hash`, `range_hash`, `by_function`.
template <class P>
concept partition_policy = std::copyable<P> && requires(P const p, key k, table_shape shape) {
  { p.server_of(k, shape) } -> std::same_as<server_id>;
};

}  // namespace rubato
