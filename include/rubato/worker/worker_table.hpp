// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/flat.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/table.hpp"
#include "rubato/storage/shared_update.hpp"
#include "rubato/storage/sparse_snapshot.hpp"
#include "rubato/worker/pull_wish.hpp"
#include "rubato/worker/worker_core.hpp"

namespace rubato {

/// A list of rows: of `key`, or of any unsigned integers.
template <class R>
concept key_range = std::ranges::random_access_range<R const> && std::ranges::sized_range<R const> &&
                    (std::same_as<std::ranges::range_value_t<R const>, key> ||
                     std::unsigned_integral<std::ranges::range_value_t<R const>>);

/// What a handle has to know of a table.
template <parameter T, bool Bounded>
struct table_handle {
  using value_type = T;
  static constexpr bool bounded = Bounded;  ///< whether it holds every row
};

template <class... Tables>
class worker;

/// One table in a worker's hands. Made by `worker[table<I>]`; as short-lived as you like.
template <class Worker, parameter T, bool Bounded>
class worker_table {
 public:
  using value_type = T;
  static constexpr bool bounded = Bounded;  ///< whether it holds every row

  /// Of the worker's table of this number, from 0.
  worker_table(Worker& w, std::size_t number) noexcept : worker_(w), number_(number) {}

  /// Reads the whole table into `out`, rows × width elements by key. Waits as the protocol says.
  /// O(size). @throws usage_error when the size is wrong
  void pull(flat<T> out) const
    requires bounded
  {
    worker_.pull_whole(number_, bytes_of(out), out.size(), std::nullopt);
  }
  /// The same with a staleness of its own, at most the protocol's.
  void pull(flat<T> out, staleness s) const
    requires bounded
  {
    worker_.pull_whole(number_, bytes_of(out), out.size(), s);
  }
  /// Reads all touched rows of a sparse table, by ascending key.
  void pull(sparse_snapshot<T>& out) const
    requires(!bounded)
  {
    raw_array values;
    worker_.pull_touched(number_, out.keys, values, std::nullopt);
    auto const typed = values.template as<T>();
    out.values.assign(typed.begin(), typed.end());
  }
  /// Reads the rows named by `keys` into `out`, width elements each. O(keys × width); quickest where none is named
  /// twice.
  template <key_range Keys>
  void pull(Keys const& keys, flat<T> out) const {
    worker_.pull_rows(number_, numbers(keys), bytes_of(out), out.size(), std::nullopt);
  }
  /// The same with a staleness of its own, at most the protocol's.
  template <key_range Keys>
  void pull(Keys const& keys, flat<T> out, staleness s) const {
    worker_.pull_rows(number_, numbers(keys), bytes_of(out), out.size(), s);
  }

  /// The whole table, into `out`, as a part of a `pull_together`.
  [[nodiscard]] pull_wish into(flat<T> out) const
    requires bounded
  {
    return {number_, element_type_of<T>(), bytes_of(out), out.size()};
  }
  /// The rows named by `keys`, the same. `keys` must outlive it, too, where they are `key`s or 64-bit numbers in an array.
  template <key_range Keys>
  [[nodiscard]] pull_wish into(Keys const& keys, flat<T> out) const {
    if constexpr (are_numbers<Keys>) return {number_, element_type_of<T>(), numbers(keys), bytes_of(out), out.size()};
    std::vector<std::uint64_t> kept;
    write_numbers(keys, kept);
    return {number_, element_type_of<T>(), std::move(kept), bytes_of(out), out.size()};
  }

  /// Asks for what the next pull of the whole table will need, and does not wait: that pull does, if it
  /// must. For the time in between: loading data, or computing what needs no parameters. Nothing is
  /// asked for what is cached, and under partition synchronization nothing at all. Several tables may be asked for one
  /// after the other; the next pull, and a commit, wait for all the answers first.
  void prefetch() const { worker_.prefetch_whole(number_); }
  /// The same for rows. O(keys).
  template <key_range Keys>
  void prefetch(Keys const& keys) const {
    worker_.prefetch_rows(number_, numbers(keys));
  }

  /// Adds `delta` to the table: seen at once by this worker, by others after its next commit.
  void push(flat<T const> delta) const
    requires bounded
  {
    worker_.push_whole(number_, bytes_of(delta), delta.size());
  }
  /// Adds what `write` writes: it is called once, with a span of rows × width elements by key whose values mean nothing
  /// yet, and writes all of them. Seen as what `push` adds.
  ///
  ///     worker.push_in_place([&](std::span<float> delta) { gradient(w, batch, delta); });
  ///
  /// For large updates: where one server has the table, and nothing has been pushed to it since the last commit or was
  /// left over by a filter, that span is the update, which is sent, or folded, from there. Else it costs as much as
  /// `push`, and over several servers the worker keeps memory for the span. Nothing is pushed where `write` throws. It
  /// may use the worker, and even commit: this is added after that. Builds with checks (RUBATO_CHECKS, or without
  /// NDEBUG) fill the span before: with NaN, or the greatest integer.
  template <std::invocable<std::span<T>> F>
  void push_in_place(F&& write) const
    requires bounded
  {
    update_buffer room = worker_.room_for_push(number_);
    std::span<T> const values = room->values.template as<T>();
#if defined(RUBATO_CHECKS) || !defined(NDEBUG)
    using limits = std::numeric_limits<T>;
    std::ranges::fill(values, limits::has_quiet_NaN ? limits::quiet_NaN() : limits::max());
#endif
    std::invoke(std::forward<F>(write), values);
    worker_.push_whole(number_, std::move(room));
  }
  /// Adds to the rows named by `keys`; one that is named twice gets both. O(keys × width); quickest where it is the
  /// clock's first push, to keys none of which is named twice, and quicker still to those that were pulled last, in
  /// their order: then nothing is looked up.
  template <key_range Keys>
  void push(Keys const& keys, flat<T const> delta) const {
    worker_.push_rows(number_, numbers(keys), bytes_of(delta), delta.size());
  }

 private:
  static std::byte* bytes_of(flat<T> values) noexcept {
    return reinterpret_cast<std::byte*>(values.data());
  }
  static std::byte const* bytes_of(flat<T const> values) noexcept {
    return reinterpret_cast<std::byte const*>(values.data());
  }

  /// Whether a list of keys is as the engine has them.
  template <class Keys>
  static constexpr bool are_numbers = std::ranges::contiguous_range<Keys const> &&
                                      sizeof(std::ranges::range_value_t<Keys const>) == sizeof(std::uint64_t);

  template <class Keys>
  static void write_numbers(Keys const& keys, std::vector<std::uint64_t>& to) {
    to.clear();
    for (auto const& k : keys) {
      if constexpr (std::same_as<std::ranges::range_value_t<Keys const>, key>) to.push_back(k.value());
      else to.push_back(static_cast<std::uint64_t>(k));
    }
  }

  /// The keys as the engine has them, in the list itself where they are so already.
  template <class Keys>
  std::span<std::uint64_t const> numbers(Keys const& keys) const {
    static_assert(sizeof(key) == sizeof(std::uint64_t) && std::is_standard_layout_v<key>);
    if constexpr (!are_numbers<Keys>) {
      write_numbers(keys, worker_.key_room());
      return worker_.key_room();
    } else {
      return {reinterpret_cast<std::uint64_t const*>(std::ranges::data(keys)), std::ranges::size(keys)};
    }
  }

  Worker& worker_;
  std::size_t number_;
};

}  // namespace rubato
