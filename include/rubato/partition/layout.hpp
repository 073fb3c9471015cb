// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/partition/concepts.hpp"
#include "rubato/partition/partition_rule.hpp"

namespace rubato {

/// @throws option_error when a partition has named a server that there is not
void check_server(server_id s, key k, table_shape shape);

/// Where the rows of a bounded table lie: a partition, worked out once.
///
/// Each server holds its rows in the order of their keys, numbered from 0 (*local rows*).
/// Immutable, so it is shared by all workers and servers. Memory is O(runs), 44 to 48 bytes each, and 32 KiB at most
/// where they are few. `locate` is O(1) where runs are about as long as each other, and else, as `runs_of`,
/// O(log runs); a run is a stretch of consecutive keys on one server.
class layout {
 public:
  /// A stretch of consecutive keys on one server.
  struct run {
    std::uint64_t first;        ///< key of the first row
    std::uint64_t rows;  ///< how many rows it has
    server_id server;  ///< the server that has them
    std::uint64_t local_first;  ///< local row of the first one
  };
  /// Where a row lies.
  struct place {
    server_id server;  ///< the server that has it
    std::uint64_t local;  ///< its number among the rows of that server
  };

  /// Asks the partition for every key, O(rows), or for every run of keys where it says how far these go.
  /// @throws option_error when it names a server that there is not, when it would have to be asked for more than
  /// 2^33 keys, and when runs are so short that there is no memory for all of them: before that is taken
  layout(partition_rule const& partition, table_shape shape);

  /// How many rows the table has.
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  /// How many of them this server has.
  [[nodiscard]] std::uint64_t rows_of(server_id s) const noexcept { return rows_of_[s.index()]; }
  /// All runs, by ascending key.
  [[nodiscard]] std::span<run const> runs() const noexcept { return runs_; }

  /// The places in `runs()` of a server's runs, in the order of its rows.
  [[nodiscard]] std::span<std::size_t const> runs_of(server_id s) const noexcept {
    std::size_t const first = first_of_[s.index()];
    return std::span(by_server_).subspan(first, first_of_[s.index() + 1] - first);
  }
  /// The same from the one that holds its row `local` on.
  [[nodiscard]] std::span<std::size_t const> runs_of(server_id s, std::uint64_t local) const noexcept;

  /// The key of a server's row. @pre the server holds as many
  [[nodiscard]] key key_of(server_id s, std::uint64_t local) const noexcept {
    run const& r = runs_[runs_of(s, local).front()];
    return key{r.first + (local - r.local_first)};
  }

  /// @pre `k` is below `rows()`
  [[nodiscard]] place locate(key k) const noexcept {
    run const& r = runs_[run_of(k.value())];
    return {r.server, r.local_first + (k.value() - r.first)};
  }

 private:
  /// Between the runs of its stretch's first key and the next stretch's.
  [[nodiscard]] std::size_t run_of(std::uint64_t k) const noexcept {
    auto const stretch = static_cast<std::size_t>(k >> stretch_bits_);
    std::size_t at = run_at_[stretch];
    std::size_t const last = run_at_[stretch + 1];
    constexpr std::size_t few = 8;
    if (last - at > few) {
      auto const begin = runs_.begin();
      auto const later = std::upper_bound(begin + static_cast<std::ptrdiff_t>(at) + 1,
                                          begin + static_cast<std::ptrdiff_t>(last) + 1, k,
                                          [](std::uint64_t value, run const& r) { return value < r.first; });
      return static_cast<std::size_t>(later - begin) - 1;
    }
    while (at < last && runs_[at + 1].first <= k) ++at;
    return at;
  }

  void add_runs(partition_rule const& partition, table_shape shape);
  void add_keys(partition_rule const& partition, table_shape shape);
  void add(key k, std::uint64_t rows, server_id s);
  void group_by_server();
  void index();

  std::uint64_t rows_;
  std::vector<run> runs_;
  // Stretches of 2^stretch_bits_ keys, and the run of the first key of each; behind them, the last run.
  int stretch_bits_ = 0;
  std::vector<std::size_t> run_at_;
  std::vector<std::uint64_t> rows_of_;
  std::vector<std::size_t> by_server_;  ///< places in `runs_`, server after server
  std::vector<std::size_t> first_of_;   ///< where a server's begin there
};

}  // namespace rubato
