// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace rubato_test {

/// Path of a real data file, or nothing (and a warning) where it is not at hand.
inline std::optional<std::string> real_data(std::string const& name) {
  std::string directory;
#ifdef RUBATO_DATA_DIR
  directory = RUBATO_DATA_DIR;
#endif
  if (char const* const set = std::getenv("RUBATO_DATA")) directory = set;
  std::string const path = directory + "/" + name;
  if (!directory.empty() && std::filesystem::exists(path)) return path;
  WARN("skipped: " << name << " is not there; set RUBATO_DATA to the directory that holds it");
  return std::nullopt;
}

}  // namespace rubato_test
