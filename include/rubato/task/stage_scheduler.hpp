// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"

namespace rubato {

/// How many workers each node has, by node number.
using placement = std::vector<std::uint32_t>;

/// The workers of a placement, over all nodes.
[[nodiscard]] std::uint32_t workers_of(placement const& p) noexcept;

/// What a stage asks of the scheduler.
struct stage_demand {
  std::uint32_t workers = 1;     ///< its degree; of no meaning where `where` is given
  placement where{};             ///< exactly there; empty: the scheduler chooses
  bool one_node = false;         ///< all on one, or not at all
  bool spread = false;           ///< it chooses all nodes, as evenly as there is room, not as few as possible
  std::optional<node_id> home{}; ///< the node that has its tables: the first of all that there is room on
  std::vector<node_id> data{};   ///< nodes that hold training data of it; empty: all are alike
  double priority = 0;           ///< before it has waited
};

/// When and by what stages are scheduled.
struct schedule_options {
  /// Stages are scheduled as soon as so many workers are free, no more than there are, (004 §5.1)
  std::uint32_t free_workers = 1;
  /// and when so much time has passed since the last time.
  duration period = std::chrono::milliseconds(100);
  /// What a second of waiting adds to a stage's priority.
  double aging = 1;
  /// A stage whose priority is above it comes first, and workers are kept free for it. Give stages that are
  /// to wait least a priority near it.
  double starving = 10;

  /// @throws option_error naming the option and what was expected
  void check() const;
};

/// Decides which stages run where: the scheduler of the master. A state machine without I/O, clock or
/// thread; times come in, and do not fall.
///
/// Where a stage does not say where: all its workers on one node if one has room, else on as few as
/// possible, or spread over all; and of several nodes on one that holds training data of it, that its task has
/// used least recently. Higher priorities come first, and grow while a stage waits. Of those that starve the one
/// that does so longest locks the workers that it needs: nobody else gets them, so it runs at the latest when the
/// stages have ended that run on its nodes now.
///
/// Not synchronized. Cost: `schedule` is O(waiting stages × nodes). Source: 004 §5.1, §5.2; rules §7.
class stage_scheduler {
 public:
  struct grant {
    task_id task;
    placement where;
  };

  explicit stage_scheduler(schedule_options const& options = {});

  // ---- nodes come and go

  /// A node with room for so many workers. @pre it is not there
  void add_node(node_id n, std::uint32_t workers);
  /// It is lost. What waits and has room nowhere any more stays until another one comes (`is_hopeless`). Returns the
  /// tasks whose stages had workers there: these hold the others' until `finish`. @pre it is there
  std::vector<task_id> remove_node(node_id n);
  [[nodiscard]] bool has_node(node_id n) const noexcept {
    return n.index() < nodes_.size() && nodes_[n.index()].here;
  }
  /// Whether a task asks for what no nodes that are there have, even if all of their workers were free.
  [[nodiscard]] bool is_hopeless(task_id t) const;
  /// Workers that there are, free or not, on all nodes.
  [[nodiscard]] std::uint32_t capacity() const noexcept;
  /// On the node that has the most.
  [[nodiscard]] std::uint32_t capacity_of_one_node() const noexcept;
  [[nodiscard]] std::uint32_t free_workers() const noexcept;

  // ---- stages

  /// That there are workers for it, free or not. @throws as `ask`
  void check(stage_demand demand) const;
  /// A task's next stage may run. A task has one stage at a time.
  /// @throws option_error when there are not so many workers, free or not; lost_error when nodes have been lost
  void ask(task_id t, stage_demand demand, time_point now);
  /// It asks for so many workers now, at least 1, and keeps its turn. @pre it waits, and does not say where
  void revise(task_id t, std::uint32_t workers);
  /// It does not ask any more.
  void withdraw(task_id t);
  /// Its stage has ended.
  void finish(task_id t);

  /// Whether it is time to schedule: workers are free, or have been asked for for so long.
  [[nodiscard]] bool due(time_point now) const noexcept;
  /// When it will be, if nothing happens before; never where nobody waits.
  [[nodiscard]] time_point next_time() const noexcept;
  /// Which stages run from now on, and where.
  [[nodiscard]] std::vector<grant> schedule(time_point now);

  // ---- for reports and observers

  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }
  [[nodiscard]] bool is_waiting(task_id t) const noexcept { return waiting_.contains(t); }
  [[nodiscard]] std::span<task_id const> starving() const noexcept { return starving_; }
  /// When a task last had a worker on this node, as a number that grows; 0 for never.
  [[nodiscard]] std::uint64_t last_use(task_id t, node_id n) const noexcept;

 private:
  struct node {
    std::uint32_t workers = 0;
    std::uint32_t busy = 0;
    std::uint32_t locked = 0;  ///< of those that are or will be free
    bool here = false;
  };
  struct request {
    stage_demand demand;
    time_point since;
    std::uint64_t order;
    placement lock{};  ///< where it will run, once it starves
  };

  [[noreturn]] void throw_no_room(stage_demand const& d) const;
  [[nodiscard]] double priority_of(request const& r, time_point now) const noexcept;
  void note_starving(time_point now);
  /// Where it could run with this room on each node.
  [[nodiscard]] std::optional<placement> place(task_id t, stage_demand const& d, placement const& room) const;
  [[nodiscard]] placement room(bool all) const;
  /// One worker on each node in turn. @pre there is room
  [[nodiscard]] static placement spread(std::uint32_t workers, std::span<std::uint32_t const> order,
                                        placement const& room);
  [[nodiscard]] std::vector<std::uint32_t> by_preference(task_id t, stage_demand const& d,
                                                         placement const& room) const;
  [[nodiscard]] bool is_free(placement const& p) const noexcept;
  void lock(request& r, placement where);
  void unlock(request& r);
  grant start(task_id t, placement where);

  schedule_options options_;
  std::vector<node> nodes_;
  bool has_lost_nodes_ = false;
  std::map<task_id, request> waiting_;
  std::map<task_id, placement> running_;
  std::vector<task_id> starving_;  ///< longest first
  std::map<task_id, std::vector<std::uint64_t>> history_;  ///< by node
  std::uint64_t asked_ = 0;
  std::uint64_t started_ = 0;
  time_point scheduled_{};
};

}  // namespace rubato
