// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <typeinfo>

#include "rubato/core/element.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/partition/partition_rule.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/storage/codec.hpp"
#include "rubato/storage/concepts.hpp"
#include "rubato/storage/table_host.hpp"
#include "rubato/storage/table_spec.hpp"
#include "rubato/storage/update_filter.hpp"

namespace rubato {

namespace detail {
/// The same for the stores that the library brings along, which are compiled with it.
template <class Store>
[[nodiscard]] std::unique_ptr<table_host> make_compiled_host(store_shape const& shape);

// Concepts, which look no further once they know: of the library's stores, what is in others may be incomplete.
template <class Store>
concept described_store = is_compiled_store<Store> || table_store<Store>;
template <class Store>
concept version_keeping_store = store_kind<Store>::keeps_versions || versioned_store<Store>;
}  // namespace detail

/// A table as a value: what the user says of it, whatever its type. Programs that choose their tables
/// while they run make these, with `describe`.
struct table_description {
  element_type element = element_type::float32;  ///< of what its elements are
  bool bounded = true;
  bool keeps_versions = false;  ///< whether its store is a `versioned_store`
  std::uint64_t rows = 0;  ///< keys are below it; 0 allows every key of a table that is not bounded
  std::size_t width = 1;  ///< elements in a row
  bool check_finite = false;  ///< pushes of NaN or infinity are refused
  update_filter filter{};
  table_codec codec{};  ///< how values go over wires in fewer bytes
  std::uint64_t cached_rows = 0;  ///< how many fetched rows a worker keeps; 0: no limit
  partition_rule partition;
  std::optional<merge_rule> merge{};  ///< none: the protocol's
  /// Makes a server's part, with all rows zero.
  std::function<std::unique_ptr<table_host>(store_shape const&)> make_host{};
  std::type_info const* own_store = nullptr;  ///< a store that the library does not bring along; for messages

  // the user's memory, for as long as servers are being made
  std::span<std::byte const> init{};  ///< initial values as they lie in memory; none: zeros
  std::span<key const> init_keys{};  ///< of a table that is not bounded: which rows they are of
};

/// @param table refers to its initial values, which must live on until they have been used
template <table_spec Table>
[[nodiscard]] table_description describe(Table const& table) {
  using store = typename Table::store;
  table_description d{.element = element_type_of<typename Table::value_type>(),
                      .bounded = Table::bounded,
                      .keeps_versions = versioned_table<Table>,
                      .rows = static_cast<std::uint64_t>(table.rows),
                      .width = static_cast<std::size_t>(table.width),
                      .check_finite = table.check_finite,
                      .filter = table.filter,
                      .cached_rows = static_cast<std::uint64_t>(table.cached_rows),
                      .partition = table.partition};
  if constexpr (detail::is_compiled_store<store>) {
    d.make_host = &detail::make_compiled_host<store>;
  } else if constexpr (!table_store<store>) {
    static_assert(table_store<store>, "a table's store must model table_store, see storage/concepts.hpp");
  } else {
    static_assert(requires { sizeof(store_host<store>); },
                  "a store of one's own needs #include <rubato/storage/store_host.hpp>");
    static_assert(configured_table<Table> || !requires { table.store_options; },
                  "a table with store_options needs a store that is made from a store_shape and these");
    if constexpr (configured_table<Table>)
      d.make_host = [o = table.store_options](store_shape const& s) { return make_host<store>(s, o); };
    else
      d.make_host = [](store_shape const& s) { return make_host<store>(s); };
    d.own_store = &typeid(store);
  }
  if constexpr (detail::described_store<store>) {
    using kind = detail::store_kind<store>;
    static_assert(std::same_as<typename kind::value_type, typename Table::value_type>,
                  "a table's store must have elements of the table's own type");
    static_assert(kind::bounded == Table::bounded,
                  "a table and its store must both be bounded, or both not");
    static_assert(detail::version_keeping_store<store> || !versioned_table<Table>,
                  "a table that keeps versions needs a store that does, see versioned_store");
  }
  if constexpr (!std::same_as<typename Table::merge_type, merge_of_protocol>)
    d.merge = static_cast<typename Table::merge_type>(table.merge);
  d.init = std::as_bytes(std::span<typename Table::value_type const>(table.init));
  if constexpr (!Table::bounded) d.init_keys = table.init_keys;
  if constexpr (requires { table.codec; }) d.codec = table.codec;
  return d;
}

}  // namespace rubato
