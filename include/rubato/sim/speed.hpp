// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <rubato/core/ids.hpp>
#include <rubato/core/random.hpp>
#include <rubato/core/time.hpp>
#include <rubato/sim/distribution.hpp>

#include <chrono>
#include <cstddef>
#include <string_view>
#include <vector>

namespace rubato::sim {

/// Some workers are slower than the others, always by the same factor (HL in SIGMOD '17).
struct heterogeneity {
  double level = 1.0;          ///< HL >= 1: the slow workers' time over that of the others
  double slow_fraction = 0.2;  ///< in [0, 1]: the last ceil(slow_fraction * workers) are slow

  /// How many of `workers` are slow.
  [[nodiscard]] std::size_t slow_workers(std::size_t workers) const noexcept;
};

/// A worker is slow now and then: each step takes `factor` times as long with `probability`.
struct random_slowdown {
  double probability = 0.0;  ///< of each step; in [0, 1]
  double factor = 6.0;  ///< above 0

  /// As Hop measures it (ASPLOS '19, section 7.3.1): 6 times slower, once in `workers` steps.
  [[nodiscard]] static constexpr random_slowdown hop(std::size_t workers) noexcept {
    return {.probability = workers == 0 ? 0.0 : 1.0 / static_cast<double>(workers), .factor = 6.0};
  }
};

/// From `at` (since the start of the run) on, `worker` is `factor` times slower than usual. The
/// factor takes the place of an earlier change's; 1 heals.
struct slowness_change {
  worker_id worker{};  ///< whose speed changes
  duration at{0};  ///< since the start of the run
  double factor = 1.0;  ///< above 0
};

/// How long a step takes. The time of a step is the product of all that is said here:
///
///     work * work_cost * slowness[worker] * heterogeneity * latest change * random slowdown *
///     jitter
struct speed_options {
  duration work_cost = std::chrono::microseconds(1);  ///< per unit of work, e.g. per example; >= 0
  std::vector<double> slowness{};  ///< by worker, > 0; 1 for the workers beyond its end
  sim::heterogeneity heterogeneity{};  ///< who is slow throughout
  sim::random_slowdown random_slowdown{};  ///< who is slow now and then
  distribution jitter{};  ///< drawn anew for each step
  std::vector<slowness_change>
      changes{};  ///< in any order; of two at one time the later listed wins

  /// @throws option_error; the sentence names the option, prefixed with `path`.
  /// @param workers all that ever take part, those that join later included
  void validate(std::size_t workers, std::string_view path = "speed") const;
};

/// Answers how long a worker's step takes.
///
/// What is drawn comes from the caller's stream, one word a step and what the jitter takes: how
/// often and when other workers ask changes nothing. Immutable after construction, so it may be
/// shared between threads. Memory O(workers + changes).
class speed_model {
 public:
  /// Heterogeneity is dealt out over the first `workers`; those that join later have none.
  /// @pre `options.validate(...)` is content.
  speed_model(speed_options const& options, std::size_t workers);

  /// The duration of a step of `work` >= 0 units that starts at `now`. The step keeps the slowness
  /// it started with, even if a change is due before its end. Saturates at `duration::max()`. O(log
  /// changes).
  [[nodiscard]] duration step(worker_id worker, double work, time_point now,
                              random_stream& random) const noexcept;

  /// The part of the factor that is not random.
  [[nodiscard]] double slowness(worker_id worker, time_point now) const noexcept;

 private:
  double work_cost_;  // nanoseconds per unit
  std::vector<double> slowness_;
  sim::random_slowdown random_slowdown_;
  distribution jitter_;
  std::vector<slowness_change> changes_;  // by (worker, time); the last applicable one holds
};

}  // namespace rubato::sim
