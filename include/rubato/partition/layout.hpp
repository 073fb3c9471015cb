// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
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
/// Immutable, so it is shared by all workers and servers. Memory is O(runs), `locate` and `runs_of`
/// O(log runs); a run is a stretch of consecutive keys on one server.
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
    group_by_server();
  }

  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::uint64_t rows_of(server_id s) const noexcept { return rows_of_[s.index()]; }
  [[nodiscard]] std::span<run const> runs() const noexcept { return runs_; }

  /// The places in `runs()` of a server's runs, in the order of its rows, from the one that holds
  /// its row `local` on.
  [[nodiscard]] std::span<std::size_t const> runs_of(server_id s,
                                                     std::uint64_t local = 0) const noexcept {
    std::span<std::size_t const> const all =
        std::span(by_server_).subspan(first_of_[s.index()],
                                      first_of_[s.index() + 1] - first_of_[s.index()]);
    auto const later = std::ranges::upper_bound(
        all, local, {}, [this](std::size_t i) { return runs_[i].local_first; });
    auto const before = static_cast<std::size_t>(later - all.begin());
    return all.subspan(before == 0 ? 0 : before - 1);
  }

  /// The key of a server's row. @pre the server holds as many
  [[nodiscard]] key key_of(server_id s, std::uint64_t local) const noexcept {
    run const& r = runs_[runs_of(s, local).front()];
    return key{r.first + (local - r.local_first)};
  }

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
  void group_by_server() {
    first_of_.resize(rows_of_.size() + 1, 0);
    for (run const& r : runs_) ++first_of_[r.server.index() + 1];
    std::partial_sum(first_of_.begin(), first_of_.end(), first_of_.begin());
    by_server_.resize(runs_.size());
    std::vector<std::size_t> next(first_of_.begin(), first_of_.end() - 1);
    for (std::size_t i = 0; i < runs_.size(); ++i) by_server_[next[runs_[i].server.index()]++] = i;
  }

  std::uint64_t rows_;
  std::vector<run> runs_;
  std::vector<std::uint64_t> rows_of_;
  std::vector<std::size_t> by_server_;  ///< places in `runs_`, server after server
  std::vector<std::size_t> first_of_;   ///< where a server's begin there
};

}  // namespace rubato
