// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Tasks that end before their time.
#include <rubato/task/task.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/psp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/task/engine.hpp>
#include <rubato/task/task_run.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/transport/tcp.hpp>

#include "task/counting.hpp"
#include "task/processes.hpp"

namespace rb = rubato;
using namespace std::chrono_literals;
using rb::test::counting;
using rb::test::counts;
using rb::test::processes;

namespace {

constexpr std::int64_t for_ever = 1'000'000'000'000;
std::vector<std::int64_t> const seven{7};

using one_table = rb::task<counts>;
using one_worker = one_table::worker_type;

/// Steps of one worker in a table of its own, that it stops itself after so many.
auto until(one_table& t, std::int64_t steps) {
  return [&t, steps](one_worker& w, rb::iteration_range todo) {
    for (std::int64_t i : todo) {
      counting{}(w, {i, i + 1});
      if (i + 1 == steps) t.stop();
    }
  };
}

/// What somebody waits for, but not for ever where it does not come.
class gate {
 public:
  void open() {
    {
      std::lock_guard const guard(lock_);
      is_open_ = true;
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock guard(lock_);
    changed_.wait_for(guard, 60s, [this] { return is_open_; });
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

template <class Transport>
void check_stopped_by_a_body(Transport const& where, std::int64_t under_way) {
  rb::engine engine{where};
  one_table t{counts{.rows = 1}};
  std::atomic<bool> goes_on = false;
  auto const first = t.stage({.workers = 2, .iterations = 3}, counting{});
  auto const endless = t.stage({.workers = 1, .iterations = for_ever}, until(t, 10));
  auto const later = t.stage({.workers = 1}, [&](auto&) { goes_on = true; });
  t.repeat(2, first, endless, later);
  rb::task_report const r = engine.submit(t).wait();
  CHECK(r.stopped);
  CHECK_FALSE(goes_on);
  REQUIRE(r.stages.size() == 2);
  CHECK_FALSE(r.stages[0].run.stopped);
  CHECK(r.stages[1].run.stopped);
  CHECK_FALSE(r.stages[1].lost);
  CHECK(r.ended == r.stages[1].ended);
  CHECK(t.parameters() == std::vector<std::int64_t>{2 * 3 + 10 - under_way});

  // It does nothing a second time, and others do not mind.
  t.stop();
  one_table other{counts{.rows = 1}};
  other.run(other.stage({.workers = 2, .iterations = 4}, counting{}));
  rb::task_report const whole = engine.submit(other).wait();
  CHECK_FALSE(whole.stopped);
  other.stop();
  CHECK(other.parameters() == std::vector<std::int64_t>{8});
}

}  // namespace

TEST_CASE("task: stop() from a body ends it for all, without an error", "[threads]") {
  SECTION("in process") { check_stopped_by_a_body(rb::in_process{.workers = 2}, 0); }
  SECTION("simulated") { check_stopped_by_a_body(rb::simulated{.workers = 2}, 1); }
}

TEST_CASE("task: stop() before it has been submitted is refused") {
  one_table t{counts{.rows = 1}};
  CHECK_THROWS_AS(t.stop(), rb::usage_error);
}

TEST_CASE("engine: a task that is stopped while it waits ends at once, and those that depend on it run", "[threads]") {
  gate hold, runs;
  rb::engine engine{rb::in_process{.workers = 2}};
  one_table holds{counts{.rows = 1}}, waits{counts{.rows = 1, .init = seven}},
      depends{counts{.rows = 1}}, last{counts{.rows = 1}};
  holds.run(holds.stage({.workers = 2}, [&](auto&) {
    runs.open();
    hold.wait();
  }));
  waits.run(waits.stage({.workers = 2, .cleared = {0}}, counting{}));
  last.run(last.stage({.workers = 2, .iterations = 2}, counting{}));
  auto const held = engine.submit(holds);
  runs.wait();
  bool const for_a_task = GENERATE(true, false);
  CAPTURE(for_a_task);
  auto const waiting = for_a_task ? engine.submit(waits, {held}) : engine.submit(waits);
  depends.run(depends.stage({}, [&](auto&) {}));
  auto const after = engine.submit(depends, {waiting});
  auto const at_last = engine.submit(last, {held});
  waits.stop();
  rb::task_report const r = waiting.wait();
  CHECK(r.stopped);
  CHECK(r.stages.empty());
  CHECK(r.elapsed() == rb::duration::zero());
  CHECK(waits.parameters() == seven);  // no stage of it has begun to clear them
  hold.open();
  CHECK(after.wait().stages.size() == 1);
  CHECK(at_last.wait().stages.size() == 1);
  CHECK(last.parameters() == std::vector<std::int64_t>{4});
}

TEST_CASE("engine: tasks of threads end whenever they are stopped, by whomever", "[threads]") {
  for (int round = 0; round < 30; ++round) {
    rb::engine engine{rb::in_process{.workers = 2}};
    one_table a{counts{.rows = 1}}, b{counts{.rows = 1}};
    for (one_table* t : {&a, &b}) {
      auto const s = t->stage({.workers = 2, .protocol = rb::asp{}, .iterations = 20}, counting{});
      t->repeat(10, s);
      t->run(s, for_ever);
    }
    auto const one = engine.submit(a), other = engine.submit(b);
    std::jthread first([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
      a.stop();
    });
    std::jthread second([&] { a.stop(); });
    b.stop();
    rb::task_report const r = one.wait(), s = other.wait();
    CHECK(r.stopped);
    CHECK(s.stopped);
    for (auto const& stage : r.stages) CHECK((stage.run.stopped || stage.run.updates == 40));
  }
}

TEST_CASE("engine: a task goes once it has ended, whoever is stopping it", "[threads]") {
  for (int round = 0; round < 200; ++round) {
    rb::engine engine{rb::in_process{.workers = 1}};
    auto t = std::make_unique<one_table>(counts{.rows = 1});
    gate about_to;
    t->run(t->stage({.iterations = for_ever}, [&](one_worker& w, rb::iteration_range todo) {
      about_to.open();
      counting{}(w, todo);
    }));
    auto const submitted = engine.submit(*t);
    about_to.wait();
    std::jthread stops([&of = *t] { of.stop(); });
    CHECK(submitted.wait().stopped);
    t.reset();
  }
}

TEST_CASE("engine: in virtual time a task that another one stops ends behind its stage, or before it begins") {
  rb::simulated const where{.workers = 2};
  rb::engine engine{where};
  one_table a{counts{.rows = 1}}, b{counts{.rows = 1}}, c{counts{.rows = 1}}, d{counts{.rows = 1}};
  auto const all_of_a = a.stage({.workers = 1, .iterations = 5}, counting{});
  a.repeat(3, all_of_a);
  b.run(b.stage({.workers = 1}, [&](auto& w) {
    w.step();
    a.stop();
    c.stop();
    d.stop();
  }));
  c.run(c.stage({.workers = 2}, counting{}));  // waits for both workers
  d.run(d.stage({.workers = 1}, counting{}));
  auto const first = engine.submit(a);
  auto const second = engine.submit(b);
  auto const third = engine.submit(c);
  auto const fourth = engine.submit(d, {third});
  rb::task_report const r = first.wait();
  CHECK(r.stopped);
  CHECK(r.stages.size() == 1);
  CHECK_FALSE(r.stages[0].run.stopped);
  CHECK(a.parameters() == std::vector<std::int64_t>{5});
  for (auto const& t : {third, fourth}) {
    rb::task_report const of_others = t.wait();
    CHECK(of_others.stopped);
    CHECK(of_others.stages.empty());
  }
  CHECK_FALSE(second.wait().stopped);
}

TEST_CASE("task_run: tables that have not come back to the servers do so when it is stopped") {
  one_table t{counts{.rows = 1}};
  auto const local = t.stage(
      {.workers = 2, .iterations = 3, .local = rb::single_machine{.prepare = rb::preparation::integral}}, counting{});
  t.repeat(2, local);
  rb::stage_scheduler nodes;
  for (std::uint32_t n = 0; n < 2; ++n) nodes.add_node(rb::node_id{n}, 2);
  bool const apart = GENERATE(true, false);
  rb::task_run run(t, nodes, {}, apart);
  (void)run.next({});
  CHECK(run.begin({0, 2}, {}).keeps_tables);
  run.ran({}, {});
  SECTION("before its next stage is asked for") { run.stop(); }
  SECTION("while that waits") {
    (void)run.next({});
    run.stop();
  }
  SECTION("as that begins") {
    (void)run.next({});
    CHECK(run.begin({0, 2}, {}).stop_asked == &t.stop_asked());
    rb::run_report stopped;
    stopped.completed = rb::completion::not_begun;
    stopped.stopped = true;
    run.ran(stopped, {});
  }
  CHECK(run.is_stopped());
  auto const demand = run.next({});
  REQUIRE(demand.has_value() == apart);
  if (!apart) return;
  CHECK(demand->home == rb::node_id{1});
  CHECK(demand->workers == 2);
  rb::run_request const back = run.begin({0, 2}, {});
  CHECK(back.stop_asked == nullptr);
  CHECK_FALSE(back.keeps_tables);
  CHECK_FALSE(back.changes_tables);
  REQUIRE(back.local);
  CHECK(back.local->prepare == rb::preparation::on_demand);
  run.ran({}, {});
  CHECK_FALSE(run.next({}));
  CHECK(run.report().stopped);
  CHECK(run.report().stages.size() == 2);
  CHECK(run.report().stages[1].iterations == 0);
}

TEST_CASE("task_run: one that is stopped when all has been done is whole") {
  one_table t{counts{.rows = 1}};
  t.run(t.stage({.iterations = 3}, counting{}));
  rb::stage_scheduler nodes;
  nodes.add_node(rb::node_id{0}, 1);
  rb::task_run run(t, nodes, {});
  (void)run.next({});
  (void)run.begin({1}, {});
  run.ran({}, {});
  run.stop();
  CHECK_FALSE(run.report().stopped);
  CHECK_FALSE(run.next({}));
}

TEST_CASE("engine: over TCP a task that one process stops ends for all of them alike", "[threads]") {
  enum class when { in_a_body, elsewhere, before };
  when const by = GENERATE(when::in_a_body, when::elsewhere, when::before);
  CAPTURE(static_cast<int>(by));
  std::vector<std::vector<std::int64_t>> ends(2);
  std::vector<rb::task_report> reports(2);
  gate begun;
  auto const said = processes("stopped").run([&](rb::tcp const& where, int worker) {
    rb::engine engine{where};
    rb::task t{counts{.rows = 1, .init = seven}};
    auto const first = t.stage({.workers = 4, .iterations = 3}, counting{});
    auto const of_the_second = t.stage({.workers = 2, .iterations = for_ever, .cleared = {0}, .where = {0, 2}},
                                       [&](auto& w, rb::iteration_range todo) {
                                         for (std::int64_t i : todo) {
                                           counting{}(w, {i, i + 1});
                                           begun.open();
                                           if (by == when::in_a_body && i == 9 && w.rank() == 1) t.stop();
                                         }
                                       });
    if (by != when::before) t.repeat(3, first, of_the_second);
    else t.repeat(3, of_the_second, first);
    auto const submitted = engine.submit(t);
    if (worker == 0 && by == when::before) t.stop();
    std::jthread elsewhere([&] {  // in the process that has no workers in that stage
      if (worker != 0 || by != when::elsewhere) return;
      begun.wait();
      t.stop();
    });
    rb::task_report const r = submitted.wait();
    if (worker < 0) return;
    ends[static_cast<std::size_t>(worker)] = t.parameters();
    reports[static_cast<std::size_t>(worker)] = r;
  });
  CHECK(said == std::vector<std::string>(2));
  CHECK(ends[0] == ends[1]);
  for (rb::task_report const& r : reports) {
    CHECK(r.stopped);
    CHECK(r.stages.size() == (by == when::before ? 0U : 2U));
    if (by != when::before) CHECK(r.stages.back().run.stopped);
  }
  // Servers have cleared the table for no stage that has not begun.
  if (by == when::before) CHECK(ends[0] == seven);
  if (by == when::in_a_body) CHECK((ends[0][0] >= 19 && ends[0][0] <= 21));
}

TEST_CASE("engine: over TCP a process that only serves stops no task", "[threads]") {
  std::vector<rb::task_report> reports(2);
  auto const said = processes("stopped-serving").run([&](rb::tcp const& where, int worker) {
    rb::engine engine{where};
    one_table t{counts{.rows = 1}};
    auto const s = t.stage({.workers = 4, .iterations = 3}, counting{});
    t.repeat(2, s);
    auto const submitted = engine.submit(t);
    if (worker < 0) t.stop();
    rb::task_report const r = submitted.wait();
    if (worker >= 0) reports[static_cast<std::size_t>(worker)] = r;
  });
  CHECK(said == std::vector<std::string>(2));
  for (rb::task_report const& r : reports) {
    CHECK_FALSE(r.stopped);
    CHECK(r.stages.size() == 2);
  }
}

namespace {

using two_tables = rb::task<counts, rb::sparse<std::int64_t, rb::sum>>;

/// Adds 1 to each third row of both tables, by key, in each iteration.
void add_to_rows(two_tables::worker_type& w, rb::iteration_range todo) {
  std::vector<rb::key> keys;
  for (std::uint64_t k = 0; k < 300; k += 3) keys.push_back(rb::key{k});
  std::vector<std::int64_t> seen(keys.size());
  std::vector<std::int64_t> const one(keys.size(), 1);
  for (std::int64_t i : todo) {
    (void)i;
    w.pull(keys, seen);
    w.push(keys, one);
    w[rb::table<1>].push(keys, one);
    w.step();
  }
}

/// Who stops a task whose tables are on the node of process 1 since its first stage, and when.
enum class moment : std::uint8_t {
  in_the_body,           ///< of the second stage, there
  before,                ///< it begins, there: but it is known that it will
  before_it_is_there,    ///< which is on the other node
  before_elsewhere,      ///< in the other process
  before_it_is_wanted,   ///< in the other process, so that nobody begins it
};

}  // namespace

TEST_CASE("engine: over TCP the tables of a node come back when its task is stopped", "[threads]") {
  moment const when = GENERATE(moment::in_the_body, moment::before, moment::before_it_is_there,
                               moment::before_elsewhere, moment::before_it_is_wanted);
  rb::rules const protocol = GENERATE(rb::rules(rb::bsp{}), rb::rules(with(rb::ssp{.staleness = 1}, rb::stable_cut{})),
                                      rb::rules(rb::psp{.staleness = 1, .sample = 1, .of = 2}));
  CAPTURE(static_cast<int>(when), protocol.name);
  std::vector<std::vector<std::int64_t>> ends(2);
  std::vector<std::uint64_t> touched(2);
  std::vector<rb::task_report> reports(2);
  auto const said = processes("stopped-local").run([&](rb::tcp const& where, int worker) {
    two_tables t{counts{.rows = 300}, {.rows = 1000}};
    rb::single_machine const small{.chunk_bytes = 16 * sizeof(std::int64_t)};
    auto const first = t.stage({.workers = 2, .protocol = protocol, .iterations = 5, .where = {0, 2}, .local = small},
                               add_to_rows);
    auto const second = t.stage({.workers = 2, .protocol = protocol, .iterations = for_ever, .local = small},
                                [&](auto& w, rb::iteration_range todo) {
                                  if (when == moment::in_the_body) {
                                    add_to_rows(w, {0, 3});
                                    t.stop();
                                  }
                                  add_to_rows(w, todo);
                                });
    t.repeat(1, first, second);
    t.open([&](rb::run_setup s) { return rb::detail::opened(where.open(std::move(s))); });
    if (worker < 0) return (void)t.opened().run({});
    rb::stage_scheduler nodes;
    for (std::uint32_t n = 0; n < 2; ++n) nodes.add_node(rb::node_id{n}, 2);
    rb::task_run run(t, nodes, {}, true);
    bool const stops = worker == (when >= moment::before_elsewhere ? 0 : 1);
    std::jthread stopper;
    for (int stages = 0; run.next({}); ++stages) {
      bool const moves = when == moment::before_it_is_there && stages == 1;
      auto request = run.begin(moves ? rb::placement{2, 0} : rb::placement{0, 2}, {});
      if (stages == 1 && when != moment::in_the_body) {
        if (!stops) std::this_thread::sleep_for(200ms);  // the other one is likely to wait for it
        else if (when == moment::before_it_is_wanted) t.stop();
        else stopper = std::jthread([&] {
          std::this_thread::sleep_for(50ms);
          t.stop();
        });
      }
      run.ran(t.opened().run(std::move(request)), {});
      if (run.is_stopped()) t.end_stops();
    }
    auto const i = static_cast<std::size_t>(worker);
    ends[i] = t.parameters();
    touched[i] = t.parameters<1>().keys.size();
    reports[i] = run.report();
  });
  CHECK(said == std::vector<std::string>(2));
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(reports[i].stopped);
    CHECK(reports[i].stages.size() == reports[0].stages.size());
    REQUIRE(ends[i].size() == 300);
    // All of the first stage, and what one worker of the second one has done before.
    CHECK(ends[i][0] >= 10 + (when == moment::in_the_body ? 3 : 0));
    CHECK(ends[i] == ends[0]);
    CHECK(touched[i] == 100);
  }
  if (when == moment::before_it_is_wanted) {
    REQUIRE(reports[0].stages.size() == 2);
    CHECK(reports[0].stages[1].iterations == 0);
  }
}
