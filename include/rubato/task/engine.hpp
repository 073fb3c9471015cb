// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/run/runtime.hpp"
#include "rubato/task/stage_scheduler.hpp"
#include "rubato/task/task.hpp"
#include "rubato/task/task_report.hpp"
#include "rubato/transport/concepts.hpp"

namespace rubato {

namespace detail {

/// What an engine does, whatever the transport is.
class engine_core {
 public:
  virtual ~engine_core() = default;
  /// Returns at once. @throws option_error, usage_error
  virtual task_id submit(task_core& t, std::vector<task_id> const& after) = 0;
  /// Returns when the task has ended; throws what ended it before its time.
  virtual task_report wait(task_id t) = 0;
};

using runtime_opener = std::function<std::unique_ptr<runtime>(run_setup)>;
[[nodiscard]] std::unique_ptr<engine_core> make_engine(task_mode mode, std::vector<std::uint32_t> const& nodes,
                                                       schedule_options const& options, runtime_opener open);

}  // namespace detail

/// A task that has been submitted. Copies are of the same one; of use as long as the engine.
class submitted_task {
 public:
  /// Returns when the task has ended, with what it measured. What a body threw is rethrown.
  /// @throws error when a task that it depends on has failed
  task_report wait() const { return engine_->wait(id_); }
  /// Its number among the tasks of the engine.
  [[nodiscard]] task_id id() const noexcept { return id_; }

 private:
  template <class Transport>
  friend class engine;
  submitted_task(detail::engine_core& e, task_id id) noexcept : engine_(&e), id_(id) {}
  detail::engine_core* engine_;
  task_id id_;
};

/// The machines of a transport, and tasks that share them: stages of tasks that do not depend on each other
/// run side by side, as far as there are workers; see `stage_scheduler` for who comes first and where.
///
/// In process every task that runs has a thread, and stages run on the cores that there are. In the simulator
/// tasks share virtual time: a stage takes the time that it takes alone, so tasks do not slow each other down
/// by what they send. Over TCP every process runs the same program, and an engine has one task.
///
/// Thread safety: one thread submits and waits. Tasks that nobody waits for: in process they end before the
/// destructor returns, theirs or the engine's; in the simulator they do not run on.
/// Source: 004 §5.1.
template <class Transport>
class engine {
  static_assert(task_transport<Transport>,
                "an engine's transport needs nodes() and tasks, see task_transport in transport/concepts.hpp");

 public:
  /// @throws option_error, also where `free_workers` is above all workers that there are
  explicit engine(Transport const& transport, schedule_options const& options = {})
      : core_(detail::make_engine(Transport::tasks, transport.nodes(), options,
                                  [transport](run_setup setup) -> std::unique_ptr<runtime> {
                                    return detail::opened(transport.open(std::move(setup)));
                                  })) {}

  /// Opens the task's tables, and lets it run as soon as those that it depends on have ended.
  /// @param after tasks that come first @throws option_error naming what cannot be meant, and each stage that could not
  /// run even if it had all workers to itself: nothing has been begun then, and the task may be submitted elsewhere
  submitted_task submit(task_core& t, std::vector<submitted_task> const& after = {}) {
    std::vector<task_id> first;
    for (submitted_task const& one : after) {
      if (one.engine_ != core_.get()) throw option_error("task: it is to run after one of another engine");
      first.push_back(one.id());
    }
    return {*core_, core_->submit(t, first)};
  }

 private:
  std::unique_ptr<detail::engine_core> core_;
};

}  // namespace rubato
