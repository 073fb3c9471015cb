// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <ranges>

#include "rubato/core/clock.hpp"
#include "rubato/core/flat.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/storage/sparse_store.hpp"

namespace rubato {

/// A list of rows: of `key`, or of any unsigned integers.
template <class R>
concept key_range = std::ranges::random_access_range<R const> && std::ranges::sized_range<R const> &&
                    (std::same_as<std::ranges::range_value_t<R const>, key> ||
                     std::unsigned_integral<std::ranges::range_value_t<R const>>);

template <class Endpoint, class System>
class worker;

/// One table in a worker's hands. Made by `worker[table<I>]`; as short-lived as you like.
template <std::size_t I, class Endpoint, class System>
class worker_table {
 public:
  using value_type = typename System::template value_type<I>;
  static constexpr bool bounded = System::template table_type<I>::bounded;

  explicit worker_table(worker<Endpoint, System>& w) noexcept : worker_(w) {}

  /// Reads the whole table into `out`, rows × width elements by key. Waits as the protocol says.
  /// O(size). @throws usage_error when the size is wrong
  void pull(flat<value_type> out) const
    requires bounded
  {
    worker_.template pull_whole<I>(out, std::nullopt);
  }
  /// The same with a staleness of its own, at most the protocol's.
  void pull(flat<value_type> out, staleness s) const
    requires bounded
  {
    worker_.template pull_whole<I>(out, s);
  }
  /// Reads all touched rows of a sparse table, by ascending key.
  void pull(sparse_snapshot<value_type>& out) const
    requires(!bounded)
  {
    worker_.template pull_whole<I>(out, std::nullopt);
  }
  /// Reads the rows named by `keys` into `out`, width elements each. O(keys × width).
  template <key_range Keys>
  void pull(Keys const& keys, flat<value_type> out) const {
    worker_.template pull_rows<I>(keys, out, std::nullopt);
  }
  template <key_range Keys>
  void pull(Keys const& keys, flat<value_type> out, staleness s) const {
    worker_.template pull_rows<I>(keys, out, s);
  }

  /// Asks for what the next pull of the whole table will need, and does not wait: that pull does, if it
  /// must. For the time in between: loading data, or computing what needs no parameters. Nothing is
  /// asked for what is cached, and under partition synchronization nothing at all. Any other fetch, and
  /// a commit, wait for the answer first.
  void prefetch() const { worker_.template prefetch_whole<I>(); }
  /// The same for rows. O(keys).
  template <key_range Keys>
  void prefetch(Keys const& keys) const {
    worker_.template prefetch_rows<I>(keys);
  }

  /// Adds `delta` to the table: seen at once by this worker, by others after its next commit.
  void push(flat<value_type const> delta) const
    requires bounded
  {
    worker_.template push_whole<I>(delta);
  }
  /// Adds to the rows named by `keys`; one that is named twice gets both.
  template <key_range Keys>
  void push(Keys const& keys, flat<value_type const> delta) const {
    worker_.template push_rows<I>(keys, delta);
  }

 private:
  worker<Endpoint, System>& worker_;
};

}  // namespace rubato
