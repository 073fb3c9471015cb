// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rubato/net/deployment.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/storage/table_list.hpp"

// What the other process of a measurement of the TCP transport serves.
namespace rubato::bench {

/// How far a worker under SSP may be ahead of what the server has received.
inline constexpr ssp in_flight_256{.staleness = staleness{256}};

/// A table of floats under `protocol` (asp, ssp or bsp), on one server, which coordinates, too.
struct served_table {
  std::string protocol;
  std::uint64_t rows = 1;
  std::size_t width = 1;
  std::string coordinator;       ///< path of its socket
  std::optional<int> core = {};  ///< that it is pinned to
  std::uint32_t workers = 1;     ///< worker processes
  std::uint32_t tables = 0;      ///< if not 0: so many tables chosen at run time, which have these rows together
  bool over_tcp = true;          ///< the server's own socket; else what is picked by itself on one machine
  bool sparse = false;           ///< the table is; else it is dense

  [[nodiscard]] std::vector<std::string> words() const;
  [[nodiscard]] static served_table parse(std::vector<std::string> const& words);
  [[nodiscard]] net::deployment place(net::role as) const;
};

/// Dense tables of floats that have so many rows together. @pre `tables` divides `rows`
[[nodiscard]] table_list list_of_tables(std::uint32_t tables, std::uint64_t rows);

/// What a server says when it ends: the most memory that it had, in bytes, before there was a table
/// and ever.
struct peak_memory {
  std::uint64_t at_start = 0;
  std::uint64_t ever = 0;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] static peak_memory parse(std::string const& text);
};

/// The other process: does what the words after `--serve` say. Returns its exit code.
int serve(std::vector<std::string> const& words);

}  // namespace rubato::bench
