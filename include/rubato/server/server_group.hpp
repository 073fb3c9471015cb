// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/optional_mutex.hpp"
#include "rubato/core/raw_array.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/server/shard.hpp"

namespace rubato {

/// All servers of a cluster, where they live in one process. Knows no transport, starts nothing.
/// Thread safety: that of its shards.
class server_group {
 public:
  /// @param plan must outlive the group @throws option_error naming the table and what was expected
  server_group(blueprint const& plan, threading t);

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(shards_.size());
  }
  [[nodiscard]] shard& server(server_id s) noexcept { return *shards_[s.index()]; }
  [[nodiscard]] shard const& server(server_id s) const noexcept { return *shards_[s.index()]; }

  /// Starts all clocks anew on every shard; see `shard::begin_stage`.
  void begin_stage(stage_id stage, std::size_t protocol = 0, bool changes_tables = false,
                   recovery what = recovery::none);
  /// Tells every shard that no read asks for less than `mark`.
  void fold_below(stage_id stage, commit_cut const& mark, std::vector<worker_id>& released);

  /// The state of a table that holds every row, in the order of its keys.
  void read_whole(std::size_t table, std::byte* out) const;
  /// The touched rows of another, by ascending key.
  void read_touched(std::size_t table, std::vector<std::uint64_t>& keys, raw_array& values) const;

  /// Adds what the shards have counted to a report.
  void add_counters(run_report& r) const;
  /// The updates received so far.
  [[nodiscard]] std::uint64_t updates() const;

 private:
  [[nodiscard]] std::vector<table_state> observe(std::size_t table) const;

  blueprint const& plan_;
  std::vector<std::unique_ptr<shard>> shards_;
};

/// The touched rows of a table, by ascending key, from what each server holds of it.
void gather_touched(std::span<table_state const> states, std::size_t row_bytes,
                    std::vector<std::uint64_t>& keys, raw_array& values);

}  // namespace rubato
