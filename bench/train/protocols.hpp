// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/result/run_result.hpp"
#include "bench/train/training.hpp"

namespace rubato::bench {

/// A protocol that can be compared.
struct protocol_entry {
  std::string_view name;
  bool takes_staleness;
  run_result (*run)(training const& job, std::int64_t staleness);
};

/// All of them, in the order in which "all" runs them. A new one is a line in protocols.cpp and a
/// source file with its run function.
[[nodiscard]] std::span<protocol_entry const> known_protocols();

/// A protocol with its staleness.
struct protocol_choice {
  protocol_entry const* entry = nullptr;
  std::int64_t staleness = 3;

  [[nodiscard]] run_result run(training const& job) const;
  [[nodiscard]] std::string label() const;
};

/// Reads "bsp", "ssp", "ssp:10" or "all"; `staleness` holds where a name says none.
/// @throws option_error that lists the known protocols
[[nodiscard]] std::vector<protocol_choice> parse_protocols(std::span<std::string const> names,
                                                           std::int64_t staleness);

// One source file each, so that they are compiled side by side.
[[nodiscard]] run_result run_bsp(training const& job, std::int64_t staleness);
[[nodiscard]] run_result run_ssp(training const& job, std::int64_t staleness);
[[nodiscard]] run_result run_asp(training const& job, std::int64_t staleness);
[[nodiscard]] run_result run_con_sgd(training const& job, std::int64_t staleness);

}  // namespace rubato::bench
