// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "rubato/core/row_map.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/messages.hpp"

namespace rubato::detail {

/// Which worker process has made a server hold which rows of tables that are not bounded. Counts only where a limit
/// asks for it. Cost: O(rows of a commit), and memory for each row once.
class process_usage {
 public:
  enum class limit : std::uint8_t { none, rows, bytes };

  process_usage(blueprint const& plan, net::server_limits const& limits);

  /// A commit of this process is about to be taken: rows that nobody has named before are its own from now on.
  /// Returns the limit that it goes beyond; then none of its rows are.
  [[nodiscard]] limit take_rows(std::uint32_t process, commit_message const& m);
  /// The commit has been refused after all: the rows that the last `take_rows` took belong to nobody.
  void give_back();
  /// Of the table only these rows, in any order, are left: the others belong to nobody. O(rows × log)
  void keep_only(std::size_t table, std::vector<std::uint64_t> rows);

  [[nodiscard]] bool counts() const noexcept { return limits_.rows_max != 0 || limits_.bytes_max != 0; }
  [[nodiscard]] std::uint64_t rows_of(std::uint32_t process) const;
  /// What these take, with their numbers.
  [[nodiscard]] std::uint64_t bytes_of(std::uint32_t process) const;
  /// Calls `f(table, row, process)` for each row that counts for one.
  template <class F>
  void for_each_row(F f) const {
    for (std::size_t table = 0; table < owners_.size(); ++table)
      for (auto const& [row, process] : owners_[table]) f(table, row, process);
  }

 private:
  struct made {
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;
  };
  struct taken_row {
    std::size_t table;
    std::uint64_t row;
  };
  [[nodiscard]] made of(std::uint32_t process) const;
  [[nodiscard]] limit exceeded(made const& all) const;
  [[nodiscard]] std::uint64_t bytes_in(std::size_t table) const;
  void discharge(std::size_t table, std::uint32_t owner);

  blueprint const& plan_;
  net::server_limits limits_;
  std::vector<row_map<std::uint32_t>> owners_;  ///< by table
  std::map<std::uint32_t, made> made_;          ///< by process
  std::vector<taken_row> last_;                 ///< by the last commit
};

}  // namespace rubato::detail
