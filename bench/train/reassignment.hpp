// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/train/training.hpp"
#include "rubato/data/dataset.hpp"

namespace rubato::bench {

/// Rows that go from slow workers to fast ones while these train: FlexRR as 000 builds it (§7.3, footnote 3). Each
/// worker has all rows at hand, so that nothing is moved but who takes them, which here costs nothing, nor does asking
/// how long others take. Who is slower than the fastest by a fifth at the end of a clock gives it a twentieth of its
/// rows. A pass is as many mini-batches as before, so that whoever has fewer rows has shorter steps.
///
/// Of one run. Thread safety: none, so it is for the simulator, whose workers take turns in one thread.
class reassignment {
 public:
  static constexpr double slower = 1.2;   ///< than the fastest, from which on a worker gives
  static constexpr double share = 0.05;   ///< of its rows, each time

  /// Everybody has its shard. @throws option_error for jobs that are not simulated
  explicit reassignment(training const& job);

  /// What the worker takes in its local step, of the rows that are its own now. Valid until the worker asks again.
  [[nodiscard]] data::dataset_view at_step(std::size_t rank, std::size_t step);
  /// A worker has committed: so many seconds has it been busy since it began, not counting how long it waited.
  void ends_clock(std::size_t rank, double busy_seconds);

  [[nodiscard]] std::size_t rows_of(std::size_t rank) const noexcept { return workers_[rank].rows.size(); }
  /// How often rows have gone from one worker to another.
  [[nodiscard]] std::uint64_t times() const noexcept { return times_; }

 private:
  struct holding {
    std::vector<std::size_t> rows{};  ///< by their numbers in the workload
    data::dataset copy{};             ///< of these, once asked for
    bool is_current = false;
    double busy = 0;        ///< seconds, to the end of the last clock
    double last_clock = 0;  ///< seconds; 0: none has ended
  };
  void give(holding& from, holding& to);

  training const& job_;
  std::vector<holding> workers_;
  std::uint64_t times_ = 0;
};

}  // namespace rubato::bench
