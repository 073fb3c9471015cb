// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

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
/// | `p.digest()`             | `uint64_t`  | optional: differs from that of policies that answer otherwise |
/// | `p.run_end(k, shape)`    | `uint64_t`  | optional, of bounded tables: where the run of keys on k's server ends at the earliest, above k |
///
/// Pure: the same answer on every machine of the run. For a bounded table it is asked once per key when the
/// cluster is made, or once per run of keys where it has `run_end`, without which a table has 2^33 rows at most;
/// for an unbounded one on every access, and once when the cluster is made. What it cannot do with the shape it
/// says by an `option_error`, whatever the key.
///
/// Processes of a run agree on a bounded table's partition by where every row lies, on another's by where the
/// first 4096 keys lie and by the digest: policies without one, `by_function` too, that differ only for later
/// keys are not told apart.
/// A const type will do where a table is told its type, as of a `constexpr` object.
/// Models: `range`, `hash`, `range_hash`, `key_ranges`, `on_servers`, `by_function`.
template <class P>
concept partition_policy = std::copyable<std::remove_const_t<P>> && requires(P const p, key k, table_shape shape) {
  { p.server_of(k, shape) } -> std::same_as<server_id>;
};

namespace detail {
/// The policy's own, or 0.
template <partition_policy P>
[[nodiscard]] std::uint64_t digest_of(P const& p) {
  if constexpr (requires { { p.digest() } -> std::same_as<std::uint64_t>; }) return p.digest();
  else return 0;
}

template <class P>
concept partition_in_runs = partition_policy<P> && requires(P const p, key k, table_shape shape) {
  { p.run_end(k, shape) } -> std::same_as<std::uint64_t>;
};
}  // namespace detail

}  // namespace rubato
