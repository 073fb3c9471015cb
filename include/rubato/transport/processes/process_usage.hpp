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
  process_usage(blueprint const& plan, net::server_limits const& limits);

  /// A commit of this process is about to be taken: rows that nobody has named before are its own from now on.
  /// Returns whether it keeps to the limits; if not, none of its rows are.
  [[nodiscard]] bool take_rows(std::uint32_t process, commit_message const& m);
  [[nodiscard]] std::uint64_t rows_of(std::uint32_t process) const;
  /// What these take, with their numbers.
  [[nodiscard]] std::uint64_t bytes_of(std::uint32_t process) const;

 private:
  struct made {
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] made of(std::uint32_t process) const;
  [[nodiscard]] made new_in(commit_message const& m) const;

  blueprint const& plan_;
  net::server_limits limits_;
  std::vector<row_map<char>> known_;  ///< by table
  std::map<std::uint32_t, made> made_;  ///< by process
};

}  // namespace rubato::detail
