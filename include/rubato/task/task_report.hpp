// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/core/time.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/task/parallelism_search.hpp"
#include "rubato/task/stage_scheduler.hpp"

namespace rubato {

/// What one stage of a task measured, or one part of a stage whose degree was searched for. Times are since
/// the engine began, wall or virtual.
struct stage_report {
  std::size_t stage = 0;       ///< its number in the task
  std::int64_t first = 0;      ///< its first iteration
  std::int64_t iterations = 1;  ///< how many it was to run; 0: tables went back to the servers, as the task was stopped
  bool probes = false;         ///< a part that the search made
  placement where;             ///< workers by node
  /// A node of these was lost before its workers had ended, or before any began (`run.completed`). What follows is
  /// the same once more if it may be.
  bool lost = false;
  time_point asked{};          ///< of the scheduler
  time_point began{};  ///< when its nodes became its own: tables are prepared, and then its first worker begins
  time_point ended{};  ///< when its last worker had ended
  run_report run;  ///< what its workers measured
};

/// How a stage's degree was found.
struct degree_report {
  std::size_t stage = 0;  ///< its number in the task
  std::uint32_t workers = 0;  ///< the degree at which the rest runs, while there are so many workers
  std::vector<parallelism_search::probe> probes;  ///< degrees that were tried, in their order
  duration cost{};            ///< what the probes took longer than they would have at that degree
};

/// What a task measured.
struct task_report {
  time_point submitted{};  ///< when the engine got it
  time_point ended{};  ///< when its last stage had ended
  std::vector<stage_report> stages;    ///< in the order in which they ran
  std::vector<degree_report> degrees;  ///< of stages whose degree was searched for, and found
  bool stopped = false;                ///< `task::stop` has ended it, so that not all has been run

  /// From the first stage's beginning to the last one's end.
  [[nodiscard]] duration elapsed() const {
    return stages.empty() ? duration::zero() : stages.back().ended - stages.front().began;
  }
  /// What the task used: each worker's place, from its stage's beginning to its end (004 §7).
  [[nodiscard]] duration worker_time() const {
    duration sum{};
    for (stage_report const& s : stages) sum += (s.ended - s.began) * static_cast<std::int64_t>(workers_of(s.where));
    return sum;
  }
};

}  // namespace rubato
