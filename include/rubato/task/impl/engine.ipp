// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/start_thread.hpp"
#include "rubato/task/engine.hpp"
#include "rubato/task/task_run.hpp"

namespace rubato::detail {

namespace {

/// A task that has been submitted.
struct submitted {
  submitted(task_core& t, std::vector<task_id> first) : task(&t), after(std::move(first)) {}
  task_core* task;  ///< until it goes
  std::vector<task_id> after;
  std::optional<task_run> run{};     ///< once those before it have ended
  std::optional<placement> where{};  ///< granted to its next stage
  bool over = false;
  std::exception_ptr failure{};
};

/// Whether its task was asked to end, and it does not know yet.
bool is_to_stop(submitted const& s) { return s.task->stop_asked() && !(s.run && s.run->is_stopped()); }

task_id id_of(std::size_t i) noexcept { return task_id{static_cast<std::uint32_t>(i)}; }

void check(std::vector<task_id> const& after, std::size_t tasks) {
  for (task_id const t : after)
    if (t.index() >= tasks)
      throw option_error("task: it is to run after task " + std::to_string(t.value()) + ", expected one of " +
                         std::to_string(tasks) + " tasks of this engine");
}

std::exception_ptr failed_before(task_id t) {
  return std::make_exception_ptr(
      error(errc::stopped, "task " + std::to_string(t.value()) + ", which this one depends on, has failed"));
}

stage_scheduler make_scheduler(std::vector<std::uint32_t> const& nodes, schedule_options const& options) {
  stage_scheduler s(options);
  for (std::uint32_t n = 0; n < nodes.size(); ++n) s.add_node(node_id{n}, nodes[n]);
  if (options.free_workers > s.capacity())
    throw option_error("schedule: free_workers must be at most all workers, of which there are " +
                       std::to_string(s.capacity()) + ", but is " + std::to_string(options.free_workers));
  return s;
}

/// The degrees that a stage can have, from the least on.
struct degrees {
  std::uint32_t least, most;
};
degrees degrees_of(stage_options const& o, stage_scheduler const& nodes) {
  if (!o.workers.is_automatic()) return {o.workers.workers(), o.workers.workers()};
  std::uint32_t const there = o.local ? nodes.capacity_of_one_node() : nodes.capacity();
  std::uint32_t const most = o.search.limit == 0 ? there : std::min(there, o.search.limit);
  return {std::min(o.search.first, most), most};
}

void check_stage(std::string const& name, stage_options const& o, stage_scheduler const& nodes) {
  for (node_id const n : o.data)
    if (!nodes.has_node(n))
      throw option_error(name + ": it has data on node " + std::to_string(n.value()) + ", of which there is none");
  degrees const d = degrees_of(o, nodes);
  nodes.check({.workers = d.least, .where = o.where, .one_node = o.local.has_value(), .spread = o.spread});
  std::uint32_t const of = o.protocol.admission.run_workers();
  if (of != 0 && (d.least != of || d.most != of))
    throw option_error(name + ": it has " +
                       (d.least == d.most ? std::to_string(d.least)
                                          : std::to_string(d.least) + " to " + std::to_string(d.most)) +
                       " workers, expected " + std::to_string(of) + ", of which " + o.protocol.name +
                       " draws some (its `of`)");
}

/// That each step could run. @param nodes as they were when nobody had begun
void check_steps(task_core const& t, stage_scheduler const& nodes) {
  std::vector<bool> is_known(t.stages().size());
  for (task_step const& step : t.program()) {
    if (is_known[step.stage]) continue;
    is_known[step.stage] = true;
    check_stage("stage " + std::to_string(step.stage), t.stages()[step.stage].options, nodes);
  }
}

/// Nobody runs there any more, and stages that wait ask for no more than is left, where they need not have it.
void drop_nodes(stage_scheduler& s, std::vector<std::uint32_t> const& lost, std::deque<submitted>& tasks) {
  bool dropped = false;
  for (std::uint32_t const n : lost)
    if (s.has_node(node_id{n})) {
      (void)s.remove_node(node_id{n});
      dropped = true;
    }
  if (!dropped) return;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (task_id const t = id_of(i); s.is_waiting(t))
      if (auto const workers = tasks[i].run->revised()) s.revise(t, *workers);
}

lost_error no_room_left() { return lost_error("task: of the nodes that are left none have room for its next stage"); }

/// Tasks that have a thread each.
class engine_of_threads final : public engine_core {
 public:
  engine_of_threads(std::vector<std::uint32_t> const& nodes, schedule_options const& options, runtime_opener open)
      : open_(std::move(open)), whole_(make_scheduler(nodes, options)), scheduler_(whole_) {}
  ~engine_of_threads() override {
    for (auto& t : threads_) t.join();
    for (submitted const& s : tasks_)
      if (s.task != nullptr) {
        s.task->at_end({});
        s.task->on_stop({});
      }
  }

  task_id submit(task_core& t, std::vector<task_id> const& after) override {
    check(after, tasks_.size());
    check_steps(t, whole_);
    t.open(open_);
    t.on_stop([this] { wake_all(); });
    task_id const id = id_of(tasks_.size());
    try {
      begin(t, after, id);
    } catch (...) {
      t.on_stop({});
      t.close();
      throw;
    }
    t.at_end([this, id] {
      std::unique_lock end(lock_);
      submitted& s = tasks_[id.index()];
      changed_.wait(end, [&] { return s.over; });
      s.task = nullptr;
    });
    return id;
  }

  task_report wait(task_id id) override {
    std::unique_lock guard(lock_);
    submitted& s = tasks_[id.index()];
    changed_.wait(guard, [&] { return s.over; });
    if (s.failure) std::rethrow_exception(s.failure);
    return s.run->report();
  }

 private:
  using guard_type = std::unique_lock<std::mutex>;

  void begin(task_core& t, std::vector<task_id> const& after, task_id id) {
    std::lock_guard const guard(lock_);
    tasks_.emplace_back(t, after);
    try {
      detail::start_thread_of([&] { return "task " + std::to_string(id.value()); },
                              [&] { threads_.emplace_back([this, id] { drive(id); }); });
    } catch (...) {
      tasks_.pop_back();
      throw;
    }
  }

  void wake_all() {
    { std::lock_guard const guard(lock_); }
    changed_.notify_all();
  }

  [[nodiscard]] time_point now() const { return time_point(std::chrono::steady_clock::now() - began_); }

  void drive(task_id id) {
    guard_type guard(lock_);
    submitted& s = tasks_[id.index()];
    try {
      await_others(guard, s);
      s.run.emplace(*s.task, scheduler_, now(), false, false);
      while (auto const demand = next_of(s)) {
        scheduler_.ask(id, *demand, now());
        if (!await_workers(guard, id, s)) continue;
        run_request request = s.run->begin(*std::exchange(s.where, std::nullopt), now());
        guard.unlock();
        run_report const r = s.task->opened().run(std::move(request));
        guard.lock();
        scheduler_.finish(id);
        drop_nodes(scheduler_, r.lost_nodes, tasks_);
        s.run->ran(r, now());
        changed_.notify_all();
      }
    } catch (...) {
      if (!guard.owns_lock()) guard.lock();
      s.failure = std::current_exception();
      scheduler_.withdraw(id);
      scheduler_.finish(id);
    }
    guard.unlock();
    s.task->end_stops();  // one that is under way calls `wake_all`; and then it may go
    guard.lock();
    s.over = true;
    changed_.notify_all();
  }

  /// What it asks for next; nothing when it is over.
  [[nodiscard]] std::optional<stage_demand> next_of(submitted& s) const {
    if (is_to_stop(s)) s.run->stop();
    return s.run->next(now());
  }

  void await_others(guard_type& guard, submitted const& s) {
    for (task_id const t : s.after) {
      submitted const& before = tasks_[t.index()];
      changed_.wait(guard, [&] { return before.over || is_to_stop(s); });
      if (is_to_stop(s)) return;
      if (before.failure) std::rethrow_exception(failed_before(t));
    }
  }

  /// Whoever waits schedules for all. Returns false if the task is to stop.
  bool await_workers(guard_type& guard, task_id id, submitted& s) {
    while (true) {
      if (is_to_stop(s)) {
        if (std::exchange(s.where, std::nullopt)) scheduler_.finish(id);
        else scheduler_.withdraw(id);
        return false;
      }
      if (s.where) return true;
      if (scheduler_.is_hopeless(id)) throw no_room_left();
      if (scheduler_.due(now())) {
        auto granted = scheduler_.schedule(now());
        for (auto& g : granted) tasks_[g.task.index()].where = std::move(g.where);
        if (!granted.empty()) changed_.notify_all();
        if (s.where) continue;
      }
      // A period may be longer than a clock can count.
      changed_.wait_until(guard, began_ + std::min<duration>(scheduler_.next_time().since_start(),
                                                             now().since_start() + std::chrono::hours(1)));
    }
  }

  runtime_opener open_;
  stage_scheduler const whole_;  ///< as it is before anybody has a worker, or a node is lost
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::vector<std::thread> threads_;
  std::mutex lock_;  ///< what follows
  std::condition_variable changed_;
  stage_scheduler scheduler_;
  std::deque<submitted> tasks_;
};

/// Tasks whose stages are run one after the other, whenever somebody waits, each at the time at which it would
/// begin if they ran side by side: in virtual time, or where only one task is there.
class engine_in_turns final : public engine_core {
 public:
  engine_in_turns(std::vector<std::uint32_t> const& nodes, schedule_options const& options, runtime_opener open,
                  bool one_task)
      : open_(std::move(open)),
        one_task_(one_task),
        whole_(make_scheduler(nodes, options)),
        scheduler_(whole_) {}
  ~engine_in_turns() override {
    for (submitted const& s : tasks_)
      if (s.task != nullptr) s.task->at_end({});
  }

  task_id submit(task_core& t, std::vector<task_id> const& after) override {
    check(after, tasks_.size());
    if (one_task_ && !tasks_.empty())
      throw option_error("engine: processes take part in one task, expected no second one");
    check_steps(t, whole_);
    t.open(open_);
    tasks_.emplace_back(t, after);
    task_id const id = id_of(tasks_.size() - 1);
    t.at_end([this, id] { forget(id); });
    return id;
  }

  task_report wait(task_id id) override {
    submitted& s = tasks_[id.index()];
    while (!s.over) advance();
    if (s.failure) std::rethrow_exception(s.failure);
    return s.run->report();
  }

 private:
  struct ending {
    task_id task;
    run_report report;
  };

  void advance() {
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      if (!tasks_[i].over && !tasks_[i].run) begin_when_free(id_of(i));
      else if (!tasks_[i].over && scheduler_.is_waiting(id_of(i)) && stops_here(tasks_[i])) withdraw(id_of(i));
    if (scheduler_.due(now_)) {
      for (auto& g : scheduler_.schedule(now_)) run_stage(g.task, std::move(g.where));
      if (!scheduler_.due(now_) || ends_.empty()) return;
    }
    time_point next = scheduler_.next_time();
    if (!ends_.empty()) next = std::min(next, ends_.begin()->first);
    if (next == time_point::max() && ends_.empty()) return;  // a task has failed before its first stage
    now_ = std::max(now_, next);
    while (!ends_.empty() && ends_.begin()->first <= now_) {
      ending const e = std::move(ends_.begin()->second);
      ends_.erase(ends_.begin());
      scheduler_.finish(e.task);
      drop_nodes(scheduler_, e.report.lost_nodes, tasks_);
      go_on(e.task, e.report);
    }
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      if (!tasks_[i].over && scheduler_.is_hopeless(id_of(i))) {
        scheduler_.withdraw(id_of(i));
        fail(tasks_[i], std::make_exception_ptr(no_room_left()));
      }
  }

  /// Its task goes, perhaps in the middle of it.
  void forget(task_id id) {
    submitted& s = tasks_[id.index()];
    s.task = nullptr;
    if (s.over) return;
    fail(s, std::make_exception_ptr(usage_error(errc::stale_handle, "task: it was destroyed before its end")));
    scheduler_.withdraw(id);
    scheduler_.finish(id);
    std::erase_if(ends_, [id](auto const& e) { return e.second.task == id; });
  }

  /// Processes learn from a run's report that they stop, all of them.
  [[nodiscard]] bool stops_here(submitted const& s) const { return !one_task_ && is_to_stop(s); }

  /// It was asked to end while it waits.
  void withdraw(task_id id) {
    scheduler_.withdraw(id);
    ask(id);
  }

  void begin_when_free(task_id id) {
    submitted& s = tasks_[id.index()];
    for (task_id const t : s.after) {
      if (stops_here(s)) break;
      if (!tasks_[t.index()].over) return;
      if (tasks_[t.index()].failure) return fail(s, failed_before(t));
    }
    s.run.emplace(*s.task, scheduler_, now_, one_task_);
    ask(id);
  }

  void go_on(task_id id, run_report const& r) {
    try {
      tasks_[id.index()].run->ran(r, now_);
    } catch (...) {
      return fail(tasks_[id.index()], std::current_exception());
    }
    ask(id);
  }

  void ask(task_id id) {
    submitted& s = tasks_[id.index()];
    try {
      if (stops_here(s)) s.run->stop();
      if (auto const demand = s.run->next(now_)) scheduler_.ask(id, *demand, now_);
      else end(s);
    } catch (...) {
      fail(s, std::current_exception());
    }
  }

  static void end(submitted& s) {
    s.task->end_stops();
    s.over = true;
  }

  void run_stage(task_id id, placement where) {
    submitted& s = tasks_[id.index()];
    if (stops_here(s)) {
      scheduler_.finish(id);
      return ask(id);
    }
    try {
      run_report r = s.task->opened().run(s.run->begin(std::move(where), now_));
      if (r.stopped) s.task->end_stops();
      if (!s.task->opened().has_workers()) {  // it has served those who have, all stages of theirs
        s.over = true;
        return scheduler_.finish(id);
      }
      time_point const end = now_ + r.elapsed;
      ends_.emplace(end, ending{id, std::move(r)});
    } catch (...) {
      scheduler_.finish(id);
      fail(s, std::current_exception());
    }
  }

  static void fail(submitted& s, std::exception_ptr why) {
    if (s.task != nullptr) s.task->end_stops();
    s.failure = std::move(why);
    s.over = true;
  }

  runtime_opener open_;
  bool one_task_;
  stage_scheduler const whole_;  ///< as it is before anybody has a worker, or a node is lost
  stage_scheduler scheduler_;
  std::deque<submitted> tasks_;
  time_point now_{};
  std::multimap<time_point, ending> ends_;
};

}  // namespace

std::unique_ptr<engine_core> make_engine(task_mode mode, std::vector<std::uint32_t> const& nodes,
                                         schedule_options const& options, runtime_opener open) {
  if (mode == task_mode::side_by_side)
    return std::make_unique<engine_of_threads>(nodes, options, std::move(open));
  return std::make_unique<engine_in_turns>(nodes, options, std::move(open), mode == task_mode::one_at_a_time);
}

}  // namespace rubato::detail
