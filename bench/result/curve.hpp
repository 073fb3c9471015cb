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
  time_split spent{};         ///< up to each worker's last commit, like the next one
  std::uint64_t steps = 0;    ///< local ones of all workers
};

/// When a curve came to the target or below to stay.
struct target_reached {
  double seconds;
  std::uint64_t updates;
  time_split spent;
  std::uint64_t steps;
};

/// The first point at the target or below after which the curve stays there for a clock, that is
/// `clock` updates, or to its end. A curve that dips below and comes back has not arrived: tuning,
/// which picks the best of many runs, would otherwise favour lucky swings.
[[nodiscard]] std::optional<target_reached> reaches(std::span<curve_point const> curve, double target,
                                                    std::uint64_t clock);

/// The same, point by point: for a run that wants to stop.
class arrival {
 public:
  arrival(double target, std::uint64_t clock) noexcept : target_(target), clock_(clock) {}

  /// The next point; returns whether the curve has arrived by now.
  bool add(curve_point const& p) noexcept {
    bool const below = p.loss <= target_;
    if (below && !pending_) since_ = p.updates;
    pending_ = below;
    return pending_ && p.updates >= since_ + clock_;
  }
  /// Whether the last point was at the target or below.
  [[nodiscard]] bool pending() const noexcept { return pending_; }
  /// The updates at which the curve came there. @pre `pending()`
  [[nodiscard]] std::uint64_t since() const noexcept { return since_; }

 private:
  double target_;
  std::uint64_t clock_;
  std::uint64_t since_ = 0;
  bool pending_ = false;
};

/// Mean and variance of the objective over the last five clocks (000 §7.1). A clock here is as many
/// updates as there are workers, so that protocols compare whoever made the updates.
struct end_of_run {
  double min_obj;
  double var_obj;
};
[[nodiscard]] end_of_run last_five_clocks(std::span<curve_point const> curve);

}  // namespace rubato::bench
