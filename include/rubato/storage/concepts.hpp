// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "rubato/core/element.hpp"
#include "rubato/core/optional_mutex.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/storage/block.hpp"
#include "rubato/storage/table_state.hpp"
#include "rubato/storage/update.hpp"

namespace rubato {

/// What a store is made for.
struct store_shape {
  std::uint64_t rows = 0;  ///< of this server, if the store is bounded
  std::size_t width = 1;   ///< elements in a row
  threading threads = threading::multiple;  ///< who calls; of interest to concurrent stores only
  /// Where a store that shares its chunks takes them from, if it likes; outlives it, and them. None: the heap.
  block_memory* memory = nullptr;
};

/// What a store is made with that needs to know its shape only.
struct no_store_options {};

/// The host of a store, see `store_host.hpp`.
template <class Store, class Options = no_store_options>
class store_host;

/// The rows of one table on one server. How they are kept is the store's business; what users see are
/// elements of `value_type`.
///
/// | expression                   | meaning |
/// |------------------------------|---------|
/// | `S::value_type`              | a `parameter`: float, double, int32 or int64 |
/// | `S::bounded`                 | constant: it holds the rows 0 … rows − 1; else any row, by a number of 64 bits, that reads as zero until it is touched |
/// | `S(shape)`                   | all rows are zero |
/// | `s.assign(rows)`             | sets rows: before a run and between runs |
/// | `s.fold(updates)`            | adds weighted updates, in their order |
/// | `s.read(rows, out)`          | copies the rows listed to `out`, width elements each; a row may be listed twice |
/// | `s.copy(first, count, out)`  | bounded: copies consecutive rows |
/// | `s.collect(keys, values)`    | not bounded: appends all touched rows, in any order |
/// | `s.bytes()`                  | memory held by the rows |
///
/// What `assign` and `fold` are given is a `row_values`: a run of consecutive rows, or rows that are
/// listed; a store that is not bounded gets lists only. Rows are within the shape, and are never named
/// twice in one update. That is all that the servers, the caches, the simulator and the network ask for.
///
/// Calls come one at a time, but not always of one thread: a server process may make a large store on a thread of its
/// own before it serves it. Unless the store says that it can do with more:
///
/// | expression                   | meaning |
/// |------------------------------|---------|
/// | `S::concurrent`              | constant, optional: true where `fold`, `read`, `copy`, `collect` and `bytes` may be called side by side when `shape.threads` is `multiple`; no row may then mix two states |
///
/// A bounded store that keeps rows in counted blocks may hand these out, which saves a copy:
///
/// | expression                   | meaning |
/// |------------------------------|---------|
/// | `s.chunks()`, `s.chunk(i)`   | optional: how many there are, and one of them as a `block_ref`, frozen; each is `table_state::chunk_bytes` long, the last perhaps less |
///
/// A store that is to be told more than its shape has a second constructor, `S(shape, options)`, and a table
/// with `store_options`, see `table_spec`.
///
/// `testing::check_store` checks one. Models: `dense_store`, `sparse_store`, `ordered_store`, `paged_store`,
/// `multi_version_store`.
template <class S>
concept table_store =
    parameter<typename S::value_type> && std::constructible_from<S, store_shape const&> &&
    requires(S s, S const cs, row_values<typename S::value_type> const& rows,
             std::span<weighted_update<typename S::value_type> const> step,
             std::span<std::uint64_t const> list, typename S::value_type* out, std::uint64_t row,
             std::vector<std::uint64_t>& keys, std::vector<typename S::value_type>& values) {
      { std::bool_constant<S::bounded>{} };
      s.assign(rows);
      s.fold(step);
      cs.read(list, out);
      { cs.bytes() } -> std::convertible_to<std::size_t>;
      requires !S::bounded || requires { cs.copy(row, row, out); };
      requires S::bounded || requires { cs.collect(keys, values); };
    };

namespace detail {
template <class S>
consteval bool declared_concurrent() {
  if constexpr (requires { { S::concurrent } -> std::convertible_to<bool>; }) return S::concurrent;
  return false;
}
}  // namespace detail

/// A store whose calls need not come one at a time.
template <class S>
concept concurrent_store = table_store<S> && detail::declared_concurrent<S>();

/// A store whose rows can be shared in place of being copied.
template <class S>
concept sharing_store = table_store<S> && S::bounded && requires(S const s, std::size_t i) {
  { s.chunks() } -> std::convertible_to<std::size_t>;
  { s.chunk(i) } -> std::convertible_to<block_ref>;
};

/// What a live version counts.
using version_share = std::function<double(version_state const&)>;
/// What a version that is over is worth; nothing while it lives on.
using version_worth = std::function<std::optional<double>(version_state const&)>;

/// A store that keeps updates apart by version, for merges that are `versioned_merge`.
///
/// | expression                     | meaning |
/// |--------------------------------|---------|
/// | `s.add(v, rows, weight)`       | G(v) ← G(v) + weight·u, n(v) ← n(v) + 1; also where u is empty |
/// | `s.expire(worth)`              | asks `worth(version_state)` about every live version, oldest first; where it answers, that much of G(v) goes into the rows, and the version is gone |
/// | `s.add_shares(rows, out, share)` | adds `share(version_state)` of each live version to rows that have been read |
/// | `s.add_shares(state, share)`   | the same to a `table_state` of all rows |
/// | `s.versions()`                 | a range of what converts to `version_state`, oldest first |
/// | `s.live()`                     | how many versions are live |
///
/// `read`, `copy` and `collect` give rows without their live versions. Called by one thread at a time.
/// Model: `multi_version_store`.
template <class S>
concept versioned_store =
    table_store<S> &&
    requires(S s, S const cs, row_values<typename S::value_type> const& rows, version_worth const& worth,
             version_share const& share, std::span<std::uint64_t const> list,
             typename S::value_type* out, table_state& state) {
      s.add(version_index{}, rows, 1.0);
      s.expire(worth);
      cs.add_shares(list, out, share);
      cs.add_shares(state, share);
      { *cs.versions().begin() } -> std::convertible_to<version_state const&>;
      cs.versions().end();
      { cs.live() } -> std::convertible_to<std::size_t>;
    };

}  // namespace rubato
