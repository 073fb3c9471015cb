// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/train/training.hpp"
#include "rubato/data/dataset.hpp"

namespace rubato::bench {

/// How many times as long each worker of the beginning takes for a step, before anything random.
[[nodiscard]] std::vector<double> slowness_of(training const& job);

/// How long things take in a run: in the simulator what the scenario says, without what is random,
/// queues and other workers' traffic; in process what a few steps take that are tried here.
/// Of an application only in the simulator.
struct timing {
  std::vector<double> step_seconds;  ///< of a mini-batch, by worker
  double exchange_seconds = 0;       ///< of a commit and the pull after it

  [[nodiscard]] double slowest_step() const;
};
[[nodiscard]] timing timing_of(training const& job);

/// A worker's mini-batches, step after step: even parts of its shard; or with BatchTune (003 App.
/// D) of the size that goes with its speed, those of all workers together as large as before; or, where the job
/// has it so, those of all shards, beginning with its own.
class mini_batches {
 public:
  /// @throws option_error when BatchTune asks for no row, or for more than the worker has
  mini_batches(training const& job, std::size_t rank);

  [[nodiscard]] data::dataset_view at_step(std::size_t step) const noexcept;

 private:
  data::dataset_view shard_;
  data::batch_range even_;
  std::size_t first_ = 0;  ///< of the even parts
  std::size_t tuned_ = 0;  ///< 0: even parts
};

}  // namespace rubato::bench
