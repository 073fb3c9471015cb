// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace rubato::bench {

/// Where workers' time went, in seconds summed over them.
struct time_split {
  double compute = 0;
  double send = 0;
  double wait = 0;

  [[nodiscard]] double total() const noexcept { return compute + send + wait; }
  /// The share of one of the parts.
  [[nodiscard]] double share(double part) const noexcept {
    return total() > 0 ? part / total() : 0;
  }
};

/// The objective at one moment of a run.
struct curve_point {
  double seconds = 0;         ///< virtual or wall, since the run began
  std::uint64_t updates = 0;  ///< that all servers had received
  double loss = 0;            ///< on the full training set
  bool ends_clock = false;    ///< the first point at or after a multiple of the number of workers
  time_split spent{};         ///< up to each worker's last commit
};

/// When a curve first was at the target or below.
struct target_reached {
  double seconds;
  std::uint64_t updates;
  time_split spent;
};
[[nodiscard]] std::optional<target_reached> first_at_or_below(std::span<curve_point const> curve,
                                                              double target);

/// Mean and variance of the objective over the last five clocks (000 §7.1). A clock here is as many
/// updates as there are workers, so that protocols compare whoever made the updates.
struct end_of_run {
  double min_obj;
  double var_obj;
};
[[nodiscard]] end_of_run last_five_clocks(std::span<curve_point const> curve);

}  // namespace rubato::bench
