// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/cluster/cluster.hpp"
#include "rubato/run/runtime.hpp"
#include "rubato/task/stage.hpp"

namespace rubato {

/// A task, as far as it does not matter what its tables hold.
class task_core {
 public:
  task_core(task_core const&) = delete;
  task_core& operator=(task_core const&) = delete;
  virtual ~task_core();

  /// Appends a stage to what the task does: for its own number of iterations, or for another one.
  /// @throws option_error @throws usage_error once the task has been submitted, and for a stage of another task
  void run(stage_ref s);
  /// The same, for so many iterations in place of the stage's own. @throws option_error for less than 1, and for several
  /// where the degree is automatic and the body takes no iteration_range
  void run(stage_ref s, std::int64_t iterations);
  /// Appends the stages, one after the other, so many times.
  template <std::same_as<stage_ref>... Stages>
  void repeat(std::int64_t times, Stages... stages) {
    for (std::int64_t i = 0; i < times; ++i) (run(stages), ...);
  }

  /// Ends the task before its time, as when it has converged: every worker's next call unwinds its body, no stage
  /// follows, and whoever waits for the task gets its report, of which `stopped` is true; its tables have what has been
  /// committed, also of a stage that was not over, and tasks that depend on it run. Does nothing where nothing is left
  /// to be done, nor a second time.
  ///
  /// Across processes one that has workers is enough, and one that serves cannot: there it does nothing. In
  /// single-machine mode it ends once the tables are back at the servers. In the simulator a commit that is under way
  /// does not arrive any more; and as a stage is computed as a whole there, what the body of another task says counts
  /// from the beginning of that one's stage, and ends a stage under way behind itself. Any thread may call it, also
  /// bodies, once it has been submitted, as long as its engine is there.
  /// @throws usage_error before it has been submitted
  void stop();

  /// All stages, by number.
  [[nodiscard]] std::span<stage_description const> stages() const noexcept { return stages_; }
  /// The steps that have been appended, in their order.
  [[nodiscard]] std::span<task_step const> program() const noexcept { return program_; }

  /// Opens what its stages run on; once. What a task is submitted to calls it.
  void open(std::function<std::unique_ptr<runtime>(run_setup)> const& open_it);
  /// Undoes that, where it could not be begun after all.
  void close() noexcept { runtime_.reset(); }
  /// Whether it has been submitted, and its tables are there.
  [[nodiscard]] bool is_open() const noexcept { return runtime_ != nullptr; }
  /// @throws usage_error unless `is_open()`
  [[nodiscard]] rubato::runtime& opened() const;
  /// Called before it goes, by its destructor; replaces what was to be called before.
  void at_end(std::function<void()> f) { at_end_ = std::move(f); }
  /// Whether somebody has called `stop`.
  [[nodiscard]] std::atomic<bool> const& stop_asked() const noexcept { return stop_asked_; }
  /// Called by the first `stop`, on its thread; replaces what was to be called before.
  void on_stop(std::function<void()> f);
  /// The task is known to end: from now on `stop` does nothing. Waits for one that is under way.
  void end_stops();

 protected:
  task_core() = default;
  /// A stage whose body takes any worker. @param takes_range as in `stage_description`
  stage_ref add(stage_options options, std::function<void(worker_core&, iteration_range)> body, bool takes_range);
  /// All but its protocols, which are its stages'.
  [[nodiscard]] virtual run_setup setup() const = 0;

 private:
  void check_not_open() const;
  void append(stage_ref s, std::optional<std::int64_t> iterations);

  std::vector<stage_description> stages_;
  std::vector<task_step> program_;
  std::unique_ptr<rubato::runtime> runtime_;
  std::function<void()> at_end_;
  std::mutex stopping_;  ///< what follows, while it is written
  std::atomic<bool> stop_asked_ = false;
  bool ends_ = false;
  std::function<void()> on_stop_;
};

/// Tables, and stages that work on them one after the other, each with a degree and a protocol of its own:
/// what a later stage reads is all that an earlier one has written. Submitted to an `engine`.
///
///     task svrg{dense<float>{.rows = n, .init = w0}, dense<float>{.rows = n}};
///     auto full = svrg.stage({.workers = 16, .cleared = {1}}, full_gradient);
///     auto inner = svrg.stage({.workers = automatic, .protocol = ssp{.staleness = 2}, .iterations = 1000},
///                             stochastic_steps);
///     svrg.repeat(10, full, inner);
///     engine.submit(svrg).wait();
///
/// A body is called with a worker, the same handle as everywhere, and if it likes with the `iteration_range` that
/// it is to run. Initial values are read when the task is submitted.
/// Its destructor waits until it has ended, where tasks have threads of their own.
/// Thread safety: one thread makes it; nothing may be changed once it has been submitted. Source: 004 §4.
template <table_spec... Tables>
class task final : public task_core {
  static_assert(sizeof...(Tables) != 0, "a task needs at least one table");

  template <std::size_t I>
  using table_type = std::tuple_element_t<I, std::tuple<Tables...>>;

 public:
  /// What bodies are given.
  using worker_type = worker<table_handle<typename Tables::value_type, Tables::bounded>...>;

  /// With tables as a `cluster` has them; what they begin with is read when the task is submitted.
  explicit task(Tables... tables) : tables_(std::move(tables)...) {}

  /// A stage: `body(worker)` or `body(worker, iteration_range)`. It does nothing yet: see `run` and `repeat`.
  /// Where the degree is automatic the body is called for one part of the iterations after the other.
  /// @throws option_error, also where it then takes no range and there are several
  template <class Body>
    requires std::invocable<Body&, worker_type&, iteration_range> || std::invocable<Body&, worker_type&>
  stage_ref stage(stage_options options, Body body) {
    constexpr bool takes_range = std::invocable<Body&, worker_type&, iteration_range>;
    auto whole = [body = std::move(body)](worker_core& w, [[maybe_unused]] iteration_range todo) mutable {
      auto& own = static_cast<worker_type&>(w);
      if constexpr (takes_range) body(own, todo);
      else body(own);
    };
    return add(std::move(options), std::move(whole), takes_range);
  }

  /// The parameters as they are after the last stage, in the order of the keys; for a sparse table its
  /// touched rows. O(size). @throws usage_error before the task has been submitted
  template <std::size_t I = 0>
  [[nodiscard]] auto parameters() const {
    using table = table_type<I>;
    if constexpr (table::bounded) {
      auto const& t = std::get<I>(tables_);
      std::vector<typename table::value_type> out(static_cast<std::size_t>(t.rows) * t.width);
      opened().read_whole(I, reinterpret_cast<std::byte*>(out.data()));
      return out;
    } else {
      sparse_snapshot<typename table::value_type> out;
      raw_array values;
      opened().read_touched(I, out.keys, values);
      auto const typed = values.template as<typename table::value_type>();
      out.values.assign(typed.begin(), typed.end());
      return out;
    }
  }

 private:
  [[nodiscard]] run_setup setup() const override {
    run_setup s;
    s.tables = std::apply([](auto const&... t) { return std::vector{describe(t)...}; }, tables_);
    s.make_worker = [](worker_setup const& w) -> std::unique_ptr<worker_core> {
      return std::make_unique<worker_type>(w);
    };
    return s;
  }

  std::tuple<Tables...> tables_;
};

}  // namespace rubato
