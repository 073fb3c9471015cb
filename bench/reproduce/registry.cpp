// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/registry.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>

namespace rubato::bench {
namespace {

constexpr std::array all{
    reproduction{"sigmod17-table3",
                 "BSP, ASP, SSP and ConSGD at HL 1 and 2: run time, updates, time per update",
                 reproduce_sigmod17_table3},
};

}  // namespace

std::optional<std::string> reproduce_options::data_file(std::string const& name) const {
  std::filesystem::path dir = data_dir;
  if (dir.empty())
    if (char const* const set = std::getenv("RUBATO_DATA"); set != nullptr) dir = set;
  if (dir.empty()) dir = std::filesystem::path("..") / "shared" / "data";
  if (!std::filesystem::exists(dir / name)) return std::nullopt;
  return (dir / name).string();
}

std::span<reproduction const> reproductions() { return all; }

}  // namespace rubato::bench
