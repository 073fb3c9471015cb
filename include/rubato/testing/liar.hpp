// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "rubato/net/network.hpp"

namespace rubato::testing {

/// What is wrong with a commit that a liar sends. Those up to `another_life` a server refuses, and goes on with the
/// worker's others; for one of the next it cuts the process off.
enum class lie : std::uint8_t {
  stamp_again,       ///< it has the stamp of the one before
  stamp_ahead,       ///< it has the stamp of the next one
  another_stage,     ///< it is of a stage that has not begun
  another_worker,    ///< it is of a worker of somebody else
  another_life,      ///< it is of an earlier life of its worker, or else of a later one
  too_many_rows,     ///< it says that it has more rows than there are
  too_few_values,    ///< its values are not as many as its rows
  too_few_tables,    ///< a table is missing
  strange_row,       ///< it has values for a row that there is not; of a table with all rows
  row_twice,         ///< it has values for a row twice
  frame_again,       ///< its frame has the number of the one before
  frame_ahead,       ///< its frame has the number of the next one
  /// It comes twice: it is sent once more on another connection, which says the same hello. What it changes is to be
  /// there once; its process may go on.
  spare_connection,
};
/// How many kinds there are.
inline constexpr std::size_t lie_kinds = 13;
/// "stamp again".
[[nodiscard]] std::string_view to_string(lie what) noexcept;

/// When a liar lies.
struct lies {
  /// Asked at each commit that is about to be sent, once for each server and once more if it is sent again: what is to
  /// be wrong with it; nothing: it is sent as it is.
  std::function<std::optional<lie>()> next;
  /// Told of each lie that has been sent. Not each can be told with each commit: a row twice needs two rows.
  std::function<void(lie)> told = [](lie) {};
};

/// The network of a worker process that lies about what it commits: one that is broken, or in somebody else's hands,
/// and has all the keys. All else is as `honest` has it. The values of a commit that is a lie are changed, too, but for
/// lies about rows and the one about a spare connection: every byte of them is `false_byte`, so that what is made of
/// them shows.
[[nodiscard]] net::network_maker lying_network(net::network_maker honest, lies when);
/// See `lying_network`.
inline constexpr std::byte false_byte{0x5b};

}  // namespace rubato::testing
