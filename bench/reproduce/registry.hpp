// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rubato::bench {

/// What a reproduction may be told.
struct reproduce_options {
  std::string data_dir{};  ///< of the real data sets; empty: RUBATO_DATA, else ../shared/data
  std::int64_t clocks = 100;
  std::uint64_t seed = 1;

  /// The path of a real data set, or nothing where it is not there.
  [[nodiscard]] std::optional<std::string> data_file(std::string const& name) const;
};

/// A figure or table of a paper that can be rerun.
struct reproduction {
  std::string_view name;
  std::string_view title;
  void (*run)(reproduce_options const& options);
};

/// All of them. A new one is a line in registry.cpp and a source file.
[[nodiscard]] std::span<reproduction const> reproductions();

/// ConSGD paper, Table 3: end-to-end comparison.
void reproduce_sigmod17_table3(reproduce_options const& options);

}  // namespace rubato::bench
