// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "rubato/core/element.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/partition/concepts.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/storage/codec.hpp"
#include "rubato/storage/update_filter.hpp"

namespace rubato {

struct store_shape;

/// Says in a table's type that it is merged as the protocol says.
struct merge_of_protocol {};

/// What the user says of a table: how many rows, how wide, initial values, merge, partition, and the
/// store that holds it on a server.
///
/// | expression         | meaning |
/// |--------------------|---------|
/// | `T::value_type`    | what elements are to the user: a `parameter` |
/// | `T::bounded`       | constant: all rows are held; else the touched ones |
/// | `T::store`         | the `table_store` of its rows on a server, of the same value_type and bounded; may be incomplete where the library brings it along |
/// | `T::merge_type`    | type of `t.merge`, or `merge_of_protocol` |
/// | `t.rows`           | keys are below it; 0 allows any, where the table is not bounded |
/// | `t.width`          | elements in a row |
/// | `t.init`           | a span of initial values, copied: of all rows, or none for zeros |
/// | `t.init_keys`      | not bounded: the rows that `init` is about, a span of `key` |
/// | `t.check_finite`   | whether pushes of NaN or infinity are refused |
/// | `t.partition`      | a `partition_policy` |
/// | `t.filter`         | an `update_filter` |
/// | `t.cached_rows`    | how many rows fetched by key a worker keeps; 0: all |
/// | `t.codec`          | optional: a `table_codec` |
/// | `t.store_options`  | optional: what the store is made with beside its shape, `store(shape, t.store_options)`; copied |
///
/// The shortest table of one's own derives from `dense` or `sparse` and names another store:
/// `struct half : rubato::dense<float> { using store = half_store; };`
/// Models: `dense`, `sparse`, `ordered`, `paged`, `multi_version`.
template <class T>
concept table_spec =
    std::copyable<T> && parameter<typename T::value_type> &&
    partition_policy<decltype(T::partition)> && requires(T const t) {
      typename T::merge_type;
      typename T::store;
      { std::bool_constant<T::bounded>{} };
      { t.rows } -> std::convertible_to<std::uint64_t>;
      { t.width } -> std::convertible_to<std::size_t>;
      { t.init } -> std::convertible_to<std::span<typename T::value_type const>>;
      { t.check_finite } -> std::convertible_to<bool>;
      { t.filter } -> std::convertible_to<update_filter>;
      { t.cached_rows } -> std::convertible_to<std::uint64_t>;
      requires std::same_as<typename T::merge_type, merge_of_protocol> || requires {
        requires merge_policy<typename T::merge_type>;
        { t.merge } -> std::convertible_to<typename T::merge_type>;
      };
      requires T::bounded || requires {
        { t.init_keys } -> std::convertible_to<std::span<key const>>;
      };
    };

/// A table whose store keeps versions. Model: `multi_version`.
template <class T>
concept versioned_table = table_spec<T> && requires { requires T::versioned; };

/// A table that says more to its store than a shape. Model: `paged`.
template <class T>
concept configured_table = table_spec<T> && requires(T const t, store_shape const& shape) {
  requires std::constructible_from<typename T::store, store_shape const&, decltype(t.store_options) const&>;
};

/// The merge that a table has under a protocol.
template <table_spec Table, protocol Protocol>
using merge_for = std::conditional_t<std::same_as<typename Table::merge_type, merge_of_protocol>,
                                     merge_of<Protocol>, typename Table::merge_type>;

// What the library brings along, compiled; defined in headers of their own.
template <parameter T>
class dense_store;
template <parameter T>
class sparse_store;
template <class Base>
class multi_version_store;

namespace detail {
/// Whether the library has this store's host compiled.
template <class Store>
inline constexpr bool is_compiled_store = false;
template <parameter T>
inline constexpr bool is_compiled_store<dense_store<T>> = true;
template <parameter T>
inline constexpr bool is_compiled_store<sparse_store<T>> = true;
template <class Base>
inline constexpr bool is_compiled_store<multi_version_store<Base>> = is_compiled_store<Base>;

/// What a store is, also while one of the library's is incomplete.
template <class Store>
struct store_kind {
  using value_type = typename Store::value_type;
  static constexpr bool bounded = Store::bounded;
  static constexpr bool keeps_versions = false;
};
template <parameter T>
struct store_kind<dense_store<T>> {
  using value_type = T;
  static constexpr bool bounded = true;
  static constexpr bool keeps_versions = false;
};
template <parameter T>
struct store_kind<sparse_store<T>> {
  using value_type = T;
  static constexpr bool bounded = false;
  static constexpr bool keeps_versions = false;
};
template <class Base>
struct store_kind<multi_version_store<Base>> : store_kind<Base> {
  static constexpr bool keeps_versions = true;
};
}  // namespace detail

}  // namespace rubato
