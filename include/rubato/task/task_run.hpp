// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "rubato/core/ids.hpp"
#include "rubato/task/parallelism_search.hpp"
#include "rubato/task/stage.hpp"
#include "rubato/task/task.hpp"
#include "rubato/task/task_report.hpp"

namespace rubato {

/// How far a task has come: which stage is next, in what part, and what has been measured. A state machine
/// that runs nothing itself: `next` says what is to run, `begin` makes the run, `ran` is told of it.
/// Not synchronized.
class task_run {
 public:
  /// @param t has been opened; outlives this @param nodes says how many workers a stage can have; as well
  /// @param keeps_apart whether tables that a stage keeps in single-machine mode are not at the servers meanwhile
  /// @param moves whether they are brought to its node at all
  task_run(task_core& t, stage_scheduler const& nodes, time_point submitted, bool keeps_apart = false,
           bool moves = true);

  /// What the next stage, or part of one, asks of the scheduler; nothing when the task is done.
  [[nodiscard]] std::optional<stage_demand> next(time_point now);
  /// Nodes have been lost while it waits for what `next` has asked: the workers that it asks for now, where its degree
  /// is searched for; else nothing has changed.
  [[nodiscard]] std::optional<std::uint32_t> revised();
  /// It runs there, from now on. Returns what is to be run.
  [[nodiscard]] run_request begin(placement where, time_point now);
  /// Somebody has asked for the task's end: nothing more begins, but for what brings tables back to the servers. What
  /// `next` has asked for is not to be had any more. @pre nothing runs
  void stop();
  /// Whether it has been told that it is stopped: by that, or by the report of a run.
  [[nodiscard]] bool is_stopped() const noexcept { return is_stopped_; }
  /// It has run. @throws lost_error when a node was lost, more often than the stage may begin again
  void ran(run_report const& r, time_point now);

  [[nodiscard]] task_report const& report() const noexcept { return report_; }

 private:
  struct part {
    std::uint32_t workers;
    std::int64_t first;
    std::int64_t iterations;
    bool probes;
  };

  [[nodiscard]] stage_description const& stage() const { return task_.stages()[task_.program()[step_].stage]; }
  [[nodiscard]] std::int64_t iterations_of_step() const;
  [[nodiscard]] part next_part() const;
  part note_part();
  void limit_search();
  [[nodiscard]] std::uint32_t capacity() const;
  [[nodiscard]] bool goes_on_with_tables() const;
  [[nodiscard]] stage_demand bring_back(time_point now);
  void begin_step();
  void note_degree(bool searched);

  task_core& task_;
  stage_scheduler const& nodes_;
  bool keeps_apart_;
  bool moves_;
  std::uint32_t attempt_ = 0;  ///< of the part under way: how often it has been begun again
  std::size_t step_ = 0;
  parallelism_search* search_ = nullptr;  ///< of the step under way
  std::int64_t search_began_ = 0;         ///< iterations that it had done before
  std::optional<node_id> home_;           ///< of the tables, in single-machine mode, between parts of a step
  bool waits_ = false;                    ///< the last report is of what has been asked for and has not begun
  bool keeps_tables_ = false;             ///< what is under way does so
  bool tables_come_ = false;              ///< to the node of what is under way, at its expense
  std::optional<node_id> copied_to_;      ///< the node that has what the servers have, from the run before
  struct keeper {
    node_id node;
    std::size_t stage;
    std::uint32_t workers;
  };
  std::optional<keeper> keeper_;  ///< where tables are that have not come back to the servers
  bool is_stopped_ = false;
  std::map<std::size_t, parallelism_search> searches_;  ///< by stage
  task_report report_;
};

}  // namespace rubato
