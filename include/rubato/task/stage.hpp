// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/run/single_machine.hpp"
#include "rubato/storage/table_change.hpp"
#include "rubato/task/parallelism_search.hpp"
#include "rubato/task/stage_scheduler.hpp"

namespace rubato {

class worker_core;

/// Says that a stage's degree is to be found while it runs.
struct automatic_degree {};
/// Asks for a search: `.workers = automatic`.
inline constexpr automatic_degree automatic{};

/// How many workers a stage has: a number, or `automatic`.
class degree {
 public:
  /// To be found while the stage runs.
  constexpr degree(automatic_degree) noexcept {}  // NOLINT: meant to be implicit
  /// @throws option_error when it is not from 1 to 2^32 − 1
  template <std::integral T>
  constexpr degree(T workers)  // NOLINT: as above
      : workers_(checked(static_cast<std::int64_t>(workers))) {}

  /// Whether it is to be found.
  [[nodiscard]] constexpr bool is_automatic() const noexcept { return workers_ == 0; }
  /// @pre not automatic
  [[nodiscard]] constexpr std::uint32_t workers() const noexcept { return workers_; }

 private:
  static constexpr std::uint32_t checked(std::int64_t n) {
    if (n < 1 || n > std::numeric_limits<std::uint32_t>::max())
      throw option_error("stage: workers must be at least 1, but is " + std::to_string(n));
    return static_cast<std::uint32_t>(n);
  }
  std::uint32_t workers_ = 0;
};

/// What a stage is, beside what its workers do. Source: 004 §4.
struct stage_options {
  degree workers = 1;  ///< its degree: how many over all nodes, or `automatic` for a body that takes a range
  rules protocol = bsp{};  ///< what the stage's workers follow
  /// What bodies are told to do, in one run or, where the degree is searched for, in several: at least 1.
  std::int64_t iterations = 1;
  // What servers do with tables before its first read, in this order: pushes only add.
  std::vector<table_copy> copied{};      ///< tables that begin as another one is: `{.to = 1, .from = 0}`
  std::vector<std::size_t> cleared{};    ///< tables that begin at zero, ascending
  std::vector<table_function> applied{};  ///< functions of yours on the parameters, see `at_servers`
  placement where{};                   ///< how many workers on which node; empty: the scheduler chooses
  bool spread = false;                 ///< it spreads them over all nodes, instead of on as few as possible
  std::vector<node_id> data{};         ///< nodes of the engine that hold training data of it; empty: all are alike
  std::optional<single_machine> local{};  ///< all workers on one node, which has the tables meanwhile
  /// How often it is begun again, on the nodes that are left, when a node is lost that has workers of it: servers then
  /// make its tables what they were. It takes their memory once more where all of them change, until the next stage
  /// begins, and that of what their merges keep, such as velocity; a `paged` table's lies in memory as a whole. Tables in
  /// single-machine mode go back after each part of it. A node that is lost between stages uses up no restart. Over TCP restarts need
  /// `net::on_loss::go_on`, under which a stage with 0 of them goes on without the lost workers, as in a `cluster`, and
  /// what those did counts; where the lost node had the tables (`local`) the task ends.
  std::uint32_t restarts = 0;
  double priority = 0;                 ///< grows while it waits
  search_options search{};             ///< of use where the degree is automatic

  /// @throws option_error
  void check() const;
  /// Whether servers do anything to tables before its first read.
  [[nodiscard]] bool changes_tables() const noexcept {
    return !copied.empty() || !cleared.empty() || !applied.empty();
  }
};

/// The iterations that a stage's body is to run, counted from 0 over the stage: `for (std::int64_t i : todo)`.
class iteration_range {
 public:
  /// A forward iterator over the iterations' numbers.
  class iterator {
   public:
    using value_type = std::int64_t;
    using difference_type = std::int64_t;
    constexpr iterator() noexcept = default;
    /// Stands at iteration `at`.
    constexpr explicit iterator(std::int64_t at) noexcept : at_(at) {}
    constexpr std::int64_t operator*() const noexcept { return at_; }
    constexpr iterator& operator++() noexcept { return ++at_, *this; }
    constexpr iterator operator++(int) noexcept { return iterator(at_++); }
    friend constexpr bool operator==(iterator, iterator) noexcept = default;

   private:
    std::int64_t at_ = 0;
  };

  /// From `first` up to, but not at, `last`.
  constexpr iteration_range(std::int64_t first, std::int64_t last) noexcept : first_(first), last_(last) {}
  [[nodiscard]] constexpr iterator begin() const noexcept { return iterator(first_); }
  [[nodiscard]] constexpr iterator end() const noexcept { return iterator(last_); }
  [[nodiscard]] constexpr std::int64_t size() const noexcept { return last_ - first_; }

 private:
  std::int64_t first_;
  std::int64_t last_;
};
static_assert(std::forward_iterator<iteration_range::iterator>);

class task_core;

/// A stage of a task, as `task::stage` gives it.
class stage_ref {
 public:
  /// Its number in the task, from 0; reports name it by that.
  [[nodiscard]] std::size_t number() const noexcept { return number_; }

 private:
  friend class task_core;
  stage_ref(task_core const& of, std::size_t number) noexcept : of_(&of), number_(number) {}
  task_core const* of_;
  std::size_t number_;
};

/// A stage as a value: what it is, and what its workers do.
struct stage_description {
  stage_options options;  ///< degree, protocol, tables that it begins with
  std::function<void(worker_core&, iteration_range)> body;  ///< what its workers do
  bool takes_range = true;  ///< whether it looks at its iterations, so that they can be run in parts
};

/// One step of a task: this stage, for its own number of iterations or another one.
struct task_step {
  std::size_t stage = 0;  ///< the stage's number in the task
  std::optional<std::int64_t> iterations{};  ///< how many iterations; none: the stage's own number
};

}  // namespace rubato
