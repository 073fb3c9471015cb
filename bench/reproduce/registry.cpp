// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/registry.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>

namespace rubato::bench {
namespace {

constexpr std::array all{
    reproduction{
        "sigmod17-table3",
        "BSP, ASP, SSP, ConSGD and DynSGD at HL 1 and 2: run time, updates, time per update",
        reproduce_sigmod17_table3},
    reproduction{"sigmod17-table4", "ConSGD: the global learning rate", reproduce_sigmod17_table4},
    reproduction{"sigmod17-figure9", "SSP, ConSGD and DynSGD: best convergence at HL 2",
                 reproduce_sigmod17_figure9},
    reproduction{"sigmod17-figure10", "the same at 1/4 to 4 times the best rate",
                 reproduce_sigmod17_figure10},
    reproduction{"sigmod17-figure11", "the same with staleness 3 to 40",
                 reproduce_sigmod17_figure11},
    reproduction{"sigmod17-figure12", "the same with 5 to 100 workers",
                 reproduce_sigmod17_figure12},
    reproduction{"sigmod17-figure13", "memory of the servers under DynSGD with staleness 3 to 40",
                 reproduce_sigmod17_figure13},
    reproduction{"sigmod17-figure16", "DynSGD with and without partition synchronization",
                 reproduce_sigmod17_figure16},
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
