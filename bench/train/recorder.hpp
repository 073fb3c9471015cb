// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "bench/result/curve.hpp"
#include "bench/train/training.hpp"

namespace rubato::bench {

/// The objective as it was at one moment of a run: computed when it is called, then or after the run.
using evaluation = std::function<double()>;

/// The objective, which is not computed again as long as the parameters stay what they are: under a
/// barrier they do for many looks.
class remembered_objective {
 public:
  explicit remembered_objective(workload const& work) noexcept : work_(work) {}

  [[nodiscard]] double operator()(std::vector<float> const& parameters) {
    if (parameters != last_) {
      value_ = work_.objective(parameters);
      last_ = parameters;
    }
    return value_;
  }
  /// That of these parameters. Refers to this object.
  [[nodiscard]] evaluation of(std::vector<float> parameters) {
    return [this, w = std::move(parameters)] { return (*this)(w); };
  }

 private:
  workload const& work_;
  std::vector<float> last_;
  double value_ = 0;
};

/// The numbers of updates at which the objective is looked at: several times in a clock, and always
/// at its end, for it is there that a barrier lets all of a clock's updates in at once.
class checkpoints {
 public:
  /// @param most no more looks than so many, where even one in each clock is too much; at least 1
  checkpoints(std::uint64_t updates_in_clock, std::int64_t clocks, std::size_t points,
              std::size_t most = std::numeric_limits<std::size_t>::max());

  /// The updates of the k-th look.
  [[nodiscard]] std::uint64_t at(std::uint64_t k) const noexcept;
  [[nodiscard]] bool ends_clock(std::uint64_t k) const noexcept { return k % per_clock_ == 0; }

 private:
  std::uint64_t updates_in_clock_;
  std::uint64_t per_clock_;
  std::uint64_t stride_ = 1;  ///< clocks from one look to the next, where they are that far apart
};

/// Where a curve begins, and what it takes to draw it.
struct curve_start {
  double loss;             ///< of what training starts from
  std::size_t look_bytes;  ///< of memory that an evaluation holds
};

/// Draws the curve of a run. In the simulator the objective is computed at once, for it costs no
/// virtual time; elsewhere evaluations are kept until the run is over, so that they take no time from
/// the workers.
class recorder {
 public:
  /// @param updates_in_clock what all workers together make in a clock
  recorder(training const& job, std::uint64_t updates_in_clock, curve_start from);
  /// Of a workload's parameters.
  recorder(training const& job, std::uint64_t updates_in_clock);
  explicit recorder(training const& job) : recorder(job, job.workers) {}

  /// Whether a look is due: cheap, so that it can be asked after every commit.
  [[nodiscard]] bool due(double seconds, std::uint64_t updates) const noexcept {
    if (job_.look_every) return seconds >= next_seconds_;
    return updates >= next_updates_.load(std::memory_order_relaxed);
  }
  /// A worker has committed: so many local steps has it made, and its time so far went there.
  void note(std::uint32_t rank, std::uint64_t steps, time_split const& spent);
  /// Looks at what `observe()` returns, an `evaluation`, if that is (still) due. Returns whether the
  /// run may stop.
  template <class Observe>
  bool look(double seconds, std::uint64_t updates, Observe observe) {
    std::lock_guard const guard(lock_);
    if (!due(seconds, updates)) return false;
    return take(seconds, updates, observe());
  }
  /// The curve, closed with the objective at the end. Evaluates what has been kept. No point is later than the end,
  /// which `seconds` says.
  [[nodiscard]] std::vector<curve_point> finish(double seconds, std::uint64_t updates, double loss);

 private:
  bool take(double seconds, std::uint64_t updates, evaluation of_now);

  training const& job_;
  checkpoints checkpoints_;
  std::uint64_t next_ = 1;
  std::atomic<std::uint64_t> next_updates_;
  double next_seconds_;  ///< in the simulator, which has one thread
  std::mutex lock_;
  std::vector<curve_point> curve_;
  arrival arrival_;
  std::vector<time_split> spent_;     ///< by worker
  std::vector<std::uint64_t> steps_;  ///< by worker
  std::vector<evaluation> kept_;      ///< but in the simulator: of each point but the first
};

}  // namespace rubato::bench
