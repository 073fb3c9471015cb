// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>

#include "rubato/partition/concepts.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/storage/update.hpp"
#include "rubato/storage/update_filter.hpp"

namespace rubato {

/// Says in a table's type that it is merged as the protocol says.
struct merge_of_protocol {};

/// What parameters may be made of. Integers are for counts: only exact merges apply to them.
template <class T>
concept parameter = std::same_as<T, float> || std::same_as<T, double> ||
                    std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>;

/// The rows of one table on one server.
///
/// | expression                   | meaning |
/// |------------------------------|---------|
/// | `s.fold(step, decay)`        | folds weighted updates in their order, as one velocity step when a decay is given |
/// | `s.read(rows, out)`          | copies the given local rows to `out`; no row mixes two states |
/// | `s.snapshot(out)`            | all rows as they are, frozen |
/// | `s.bytes()`                  | memory held by the parameters |
///
/// With a real mutex as `Mutex` all of them may be called concurrently.
template <class S>
concept table_store = requires(S s, S const cs,
                               std::span<weighted_update<typename S::value_type> const> step,
                               std::optional<double> decay, std::span<std::uint64_t const> rows,
                               typename S::value_type* out, typename S::snapshot_type snapshot) {
  s.fold(step, decay);
  cs.read(rows, out);
  cs.snapshot(snapshot);
  { cs.bytes() } -> std::convertible_to<std::size_t>;
};

/// What the user says of a table: element type, rows, width, initial values, merge, partition, and
/// the store that holds it. Models: `dense`, `sparse`.
template <class T>
concept table_spec = std::copyable<T> && parameter<typename T::value_type> &&
                     partition_policy<decltype(T::partition)> && requires(T const t) {
  typename T::merge_type;
  { std::bool_constant<T::bounded>{} };
  { t.rows } -> std::convertible_to<std::uint64_t>;
  { t.width } -> std::convertible_to<std::size_t>;
  { t.check_finite } -> std::convertible_to<bool>;
  { t.filter } -> std::convertible_to<update_filter>;
  { t.cached_rows } -> std::convertible_to<std::uint64_t>;
  requires table_store<typename T::template store<std::mutex>>;
};

/// A table whose store keeps versions. Model: `multi_version`.
template <class T>
concept versioned_table = table_spec<T> && requires { requires T::versioned; };

/// The merge that a table has under a protocol.
template <table_spec Table, protocol Protocol>
using merge_for = std::conditional_t<std::same_as<typename Table::merge_type, merge_of_protocol>,
                                     merge_of<Protocol>, typename Table::merge_type>;

}  // namespace rubato
