// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "rubato/core/check_options.hpp"
#include "rubato/partition/concepts.hpp"

namespace rubato {

/// The default: runs of consecutive keys, dealt to the servers in hashed order. Neighbors travel
/// together, and a hot stretch of keys is spread over all servers. Source: 000 App. D.
///
/// Every `servers` consecutive runs go to distinct servers, so the load differs by one run at most.
struct range_hash {
  std::uint64_t runs_per_server = 16;   ///< for bounded tables; below 2³²
  std::uint64_t rows_per_run = 1024;    ///< for unbounded ones
  /// @throws option_error
  void check() const {
    detail::expect_option(runs_per_server < std::uint64_t{1} << 32, "range_hash: runs_per_server", runs_per_server,
                          "below 2^32");
  }

  [[nodiscard]] constexpr server_id server_of(key k, table_shape shape) const noexcept {
    if (shape.servers == 1) return server_id{0};
    // Divisions are what it costs, and an unbounded table asks for each key: three, not five.
    std::uint64_t const servers = shape.servers;
    std::uint64_t const run = k.value() / run_rows(shape);
    std::uint64_t const turn = run / servers;
    std::uint64_t const place = run - turn * servers + detail::mix64(turn + 1) % servers;
    return server_id{static_cast<std::uint32_t>(place < servers ? place : place - servers)};
  }

  [[nodiscard]] constexpr std::uint64_t run_end(key k, table_shape shape) const noexcept {
    if (shape.servers == 1) return shape.rows;
    std::uint64_t const first = k.value() - k.value() % run_rows(shape), end = first + run_rows(shape);
    return end > first ? end : std::numeric_limits<std::uint64_t>::max();
  }

 private:
  [[nodiscard]] constexpr std::uint64_t run_rows(table_shape shape) const noexcept {
    std::uint64_t const runs = std::max<std::uint64_t>(runs_per_server, 1) * shape.servers;
    std::uint64_t const rows = shape.rows == 0 ? rows_per_run : shape.rows / runs + (shape.rows % runs != 0);
    return std::max<std::uint64_t>(rows, 1);
  }
};
static_assert(partition_policy<range_hash>);

}  // namespace rubato
