// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace rubato::bench {

/// Whether results can be written there, asked before minutes are spent on them. Leaves the place as it is: a file with
/// what it holds, none where there is none, and who reads a pipe waits on.
[[nodiscard]] inline bool is_writable(std::string const& file) {
  std::error_code unknown;
  auto const what = std::filesystem::status(file, unknown).type();
  bool const is_new = what == std::filesystem::file_type::not_found;
  if (!is_new && what != std::filesystem::file_type::regular) return what != std::filesystem::file_type::directory;
  bool const can = std::ofstream(file, std::ios::app).is_open();
  if (is_new && can) std::filesystem::remove(file, unknown);
  return can;
}

}  // namespace rubato::bench
