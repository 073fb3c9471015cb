// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/element.hpp"
#include "rubato/protocol/rules.hpp"

namespace rubato {

class table_host;
class table_state;

/// Table `to` becomes what table `from` is. Both are of the same element, rows, width and partition.
struct table_copy {
  std::size_t to = 0;
  std::size_t from = 0;
};

/// A user's function on a table's parameters, at the servers. Made by `at_servers`.
struct table_function {
  std::size_t table = 0;
  element_type element = element_type::float32;
  std::function<void(std::span<std::byte>)> change;
};

/// `f(std::span<T> values)` is called with the rows of the table that a server holds, piece by piece, in whole rows; of
/// a table that is not bounded with those that have been touched. Servers call it side by side. The parameters are what
/// it makes of `values`: scaling them for regularisation, for one.
/// Where servers are processes of their own they need to be started from the same program.
template <parameter T, class F>
  requires std::invocable<F const&, std::span<T>>
[[nodiscard]] table_function at_servers(std::size_t table, F f) {
  return {table, element_type_of<T>(), [f = std::move(f)](std::span<std::byte> bytes) {
            f(std::span(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)));
          }};
}

/// What servers do with their tables before a stage's first read: pushes only add. First copies, one after the other,
/// then what begins at zero, then functions, in their order.
struct table_changes {
  std::vector<std::size_t> cleared{};  ///< ascending
  std::vector<table_copy> copied{};
  std::vector<table_function> applied{};
  /// In single-machine mode: the tables are with the workers, by these rules, and come back from there.
  std::optional<rules> moved{};
};

/// `to` becomes what `from` is, velocity aside: that begins at zero. Nobody else may use either meanwhile.
/// Cost: O(rows × width); memory for one chunk, or for the touched rows.
void copy_table(table_host& to, table_host const& from, bool bounded, std::size_t row_bytes);
/// `to` becomes what a state says, velocity aside. The same cost.
void restore_table(table_host& to, table_state const& from, bool bounded, std::size_t row_bytes);
/// The same cost.
void apply_to_table(table_host& table, table_function const& f, bool bounded, std::size_t row_bytes);

}  // namespace rubato
