// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/raw_array.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/storage/on_demand_host.hpp"
#include "rubato/storage/update.hpp"
#include "rubato/worker/endpoint.hpp"

namespace rubato::detail {

/// What servers in other processes hold, for the one worker of a stage in single-machine mode: rows by key, and back.
/// Thread safety: `read` any thread, one after the other; `give` one thread, while nobody reads.
class server_tables {
 public:
  /// Sends values of rows to a server, for it to have instead of its own; returns before they have arrived.
  using giver = std::function<void(server_id s, std::size_t table, update values)>;

  /// @param link of the worker `self`, whose stage it is
  server_tables(endpoint& link, blueprint const& plan, sender const& self, giver give);

  /// The rows of a bounded table with these keys, one after the other. As `endpoint::wait` throws.
  void read(std::size_t table, std::span<row_run const> keys, std::byte* out);
  /// Servers are to have these values of the rows with these keys; of tables that are not bounded, too.
  void give(std::size_t table, std::span<std::uint64_t const> keys, std::span<std::byte const> values);

 private:
  endpoint& link_;
  blueprint const& plan_;
  sender self_;
  giver give_;
  std::mutex reading_;            ///< tables share what follows, and the endpoint
  std::vector<read_slot> slots_;  ///< by server
  std::vector<std::uint64_t> keys_;
  std::vector<layout::place> places_;
};

}  // namespace rubato::detail
