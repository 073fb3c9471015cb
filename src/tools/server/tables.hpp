// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rubato::server_tool {

/// One of the tables that `rubato-server` hosts.
struct table_options {
  std::string storage = "dense";
  std::string partition = "range_hash";
  std::uint64_t rows = 0;
  std::size_t width = 1;

  [[nodiscard]] bool is_sparse() const noexcept { return storage.ends_with("sparse"); }
  [[nodiscard]] bool is_versioned() const noexcept { return storage.starts_with("multi_version"); }
};

/// Whether so many tables, so many of them sparse, are hosted. Says which combinations are
/// compiled, in any order of the tables: each costs seconds, for every merge and type of elements.
[[nodiscard]] constexpr bool is_hosted(std::size_t tables, std::size_t sparse_ones) noexcept {
  return tables <= 2 || (tables <= 3 && sparse_ones == 0);
}

/// What was written about the tables: lists with commas, one value for each table or one for all.
struct table_texts {
  std::string storage = "dense";
  std::string partition = "range_hash";
  std::string rows = "0";
  std::string width = "1";
};

/// The tables, in the order in which the program gives them to its cluster.
/// @throws option_error that names the option, the table where there are several, and what was
/// expected
[[nodiscard]] std::vector<table_options> tables_from(table_texts const& t);

}  // namespace rubato::server_tool
