// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rubato/storage/table_description.hpp"

namespace rubato::server_tool {

/// One of the tables that `rubato-server` hosts, in words that have been checked.
struct table_options {
  std::string storage = "dense";
  std::string type = "float";
  std::string merge = "protocol";
  std::string partition = "range_hash";
  std::string update_codec = "none";
  std::string answer_codec = "none";
  std::uint64_t rows = 0;
  std::size_t width = 1;

  [[nodiscard]] bool is_sparse() const noexcept { return storage.ends_with("sparse"); }
  [[nodiscard]] bool is_versioned() const noexcept { return storage.starts_with("multi_version"); }
};

/// What was written about the tables: lists with commas, one value for each table or one for all.
struct table_texts {
  std::string storage = "dense";
  std::string type = "float";
  std::string merge = "protocol";
  std::string partition = "range_hash";
  std::string update_codec = "none";
  std::string answer_codec = "none";
  std::string rows = "0";
  std::string width = "1";
};

/// The tables, in the order in which the program gives them to its cluster.
/// @throws option_error that names the option, the table where there are several, and what was
/// expected
[[nodiscard]] std::vector<table_options> tables_from(table_texts const& t);

/// Such a table as a program would describe it. Its initial values come from a worker process.
[[nodiscard]] table_description description_of(table_options const& t);

}  // namespace rubato::server_tool
