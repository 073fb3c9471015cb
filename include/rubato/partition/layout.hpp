// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/partition/concepts.hpp"

namespace rubato {

/// @throws option_error when a partition has named a server that there is not
inline void check_server(server_id s, key k, table_shape shape) {
  if (s.value() >= shape.servers)
    throw option_error("partition: key " + std::to_string(k.value()) + " was given to server " +
                       std::to_string(s.value()) + ", expected one below " +
                       std::to_string(shape.servers));
}

/// Where the rows of a bounded table lie: a partition, worked out once.
///
/// Each server holds its rows in the order of their keys, numbered from 0 (*local rows*).
/// Immutable, so it is shared by all workers and servers. Memory is O(runs), `locate` O(log runs);
/// a run is a stretch of consecutive keys on one server.
class layout {
 public:
  struct run {
    std::uint64_t first;        ///< key of the first row
    std::uint64_t rows;
    server_id server;
    std::uint64_t local_first;  ///< local row of the first one
  };
  struct place {
    server_id server;
    std::uint64_t local;
  };

  /// Asks the partition for every key: O(rows). @throws option_error when it names a server that
  /// there is not
  template <partition_policy Partition>
  layout(Partition const& partition, table_shape shape) : rows_(shape.rows) {
    rows_of_.resize(shape.servers, 0);
    for (std::uint64_t k = 0; k < shape.rows; ++k) {
      server_id const s = partition.server_of(key{k}, shape);
      check_server(s, key{k}, shape);
      if (runs_.empty() || runs_.back().server != s)
        runs_.push_back({k, 0, s, rows_of_[s.index()]});
      ++runs_.back().rows;
      ++rows_of_[s.index()];
    }
  }

  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::uint64_t rows_of(server_id s) const noexcept { return rows_of_[s.index()]; }
  [[nodiscard]] std::span<run const> runs() const noexcept { return runs_; }

  /// @pre `k` is below `rows()`
  [[nodiscard]] place locate(key k) const noexcept {
    run const* r = &runs_.front();
    if (runs_.size() > 1)
      r = &*std::prev(std::upper_bound(
          runs_.begin(), runs_.end(), k.value(),
          [](std::uint64_t value, run const& candidate) { return value < candidate.first; }));
    return {r->server, r->local_first + (k.value() - r->first)};
  }

 private:
  std::uint64_t rows_;
  std::vector<run> runs_;
  std::vector<std::uint64_t> rows_of_;
};

}  // namespace rubato
