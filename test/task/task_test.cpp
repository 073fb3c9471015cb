// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/task/task.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/con_sgd.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/fed_avg.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/psp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/task/engine.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/worker/endpoint.hpp>

#include "no_more_threads.hpp"
#include "seeds.hpp"
#include "task/counting.hpp"

namespace rb = rubato;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

using rb::test::counting;
using rb::test::counts;

template <class Transport>
void check_stages(Transport const& where) {
  rb::engine engine{where};
  rb::task t{counts{.rows = 1}, counts{.rows = 1}};
  auto const a = t.stage({.workers = 4, .iterations = 5}, counting{});
  auto const b = t.stage({.workers = 1, .protocol = rb::asp{}, .iterations = 7}, counting{20});
  auto const c = t.stage({.workers = 3, .protocol = rb::ssp{.staleness = 2}, .iterations = 2, .cleared = {0}},
                         counting{});
  auto const d = t.stage({.workers = 2, .protocol = with(rb::dyn_sgd{}, rb::sum{}, rb::stable_cut{}), .iterations = 3},
                         counting{6});
  t.repeat(1, a, b, c, d);
  rb::task_report const r = engine.submit(t).wait();
  CHECK(t.parameters() == std::vector<std::int64_t>{3 * 2 + 2 * 3});
  REQUIRE(r.stages.size() == 4);
  std::vector<std::uint32_t> degrees;
  for (auto const& s : r.stages) {
    degrees.push_back(rb::workers_of(s.where));
    CHECK(s.run.updates == degrees.back() * static_cast<std::uint64_t>(s.iterations));
  }
  CHECK(degrees == std::vector<std::uint32_t>{4, 1, 3, 2});
}

}  // namespace

TEST_CASE("task: each stage has its own degree and protocol, and sees all that earlier ones wrote", "[threads]") {
  check_stages(rb::in_process{.workers = 4, .servers = 2});
  check_stages(rb::simulated{.workers = 4, .servers = 2});
  check_stages(rb::decorated{rb::in_process{.workers = 4}, [](rb::endpoint& inner, rb::worker_id) {
                               return std::make_unique<rb::endpoint_decorator>(inner);
                             }});
}

TEST_CASE("task: clocks start anew in each stage") {
  rb::engine engine{rb::simulated{.workers = 4}};
  rb::task t{counts{.rows = 1}};
  std::set<std::int64_t> starts;
  auto const body = [&](auto& w, rb::iteration_range todo) {
    starts.insert(w.clock().value());
    for (auto i : todo) (void)i, w.step();
  };
  t.repeat(2, t.stage({.workers = 3, .iterations = 5}, body), t.stage({.workers = 4, .iterations = 1}, body));
  (void)engine.submit(t).wait();
  CHECK(starts == std::set<std::int64_t>{0});
}

TEST_CASE("task: a stage runs spread over the nodes where it says so, whatever its degree is") {
  rb::engine engine{rb::simulated{.workers = 6, .scenario = {.machine_of = rb::sim::blocks(6, 3)}}};
  rb::task t{counts{.rows = 1}};
  t.run(t.stage({.workers = 2}, counting{}));
  t.run(t.stage({.workers = 4, .spread = true}, counting{2}));
  rb::stage_options const searched{
      .workers = rb::automatic, .iterations = 3, .spread = true, .search = {.first = 3}};
  t.run(t.stage(searched, counting{6}));
  auto const r = engine.submit(t).wait();
  REQUIRE(r.stages.size() == 3);
  CHECK(r.stages[0].where == rb::placement{2, 0, 0});
  CHECK(r.stages[1].where == rb::placement{1, 2, 1});
  CHECK(r.stages[2].where == rb::placement{1, 1, 1});
}

TEST_CASE("task: a table that is cleared begins at zero in each run of the stage, velocity and all") {
  rb::engine engine{rb::simulated{.workers = 2, .servers = 2}};
  std::vector<float> const start{1, 2, 3, 4};
  rb::task t{rb::dense<float, rb::momentum>{.rows = 4, .init = start, .merge = {.mu = 0.5}},
             rb::sparse<double>{.rows = 9}};
  auto const add = t.stage({.workers = 1, .iterations = 1, .cleared = {0, 1}}, [](auto& w) {
    std::vector<float> const u{1, 1, 1, 1};
    w.push(u);
    std::vector<rb::key> const k{rb::key{7}};
    std::vector<double> const x{2};
    w[rb::table<1>].push(k, x);
    w.step();
  });
  t.repeat(3, add);
  (void)engine.submit(t).wait();
  CHECK(t.parameters() == std::vector<float>{1, 1, 1, 1});
  CHECK(t.parameters<1>().keys == std::vector<std::uint64_t>{7});
  CHECK(t.parameters<1>().values == std::vector<double>{2});
}

namespace {

/// Versions that never end and count a quarter.
struct quarter_for_ever {
  rb::version_index map(rb::commit_info const& c) const noexcept { return rb::version_index{c.stamp.value()}; }
  double weight(rb::commit_info const&) const noexcept { return 1; }
  double share(rb::version_state const&) const noexcept { return 0.25; }
  std::optional<double> expire(rb::version_state const&, rb::version_window const&) const noexcept {
    return std::nullopt;
  }
  rb::version_index version_after(rb::version_read const& r) const noexcept { return r.own; }
};

}  // namespace

TEST_CASE("task: versions that a stage leaves live stay in the parameters, by its own rules") {
  rb::engine engine{rb::simulated{.workers = 3}};
  rb::task t{rb::multi_version{rb::dense<double>{.rows = 1}}};
  auto const push_one = [](auto& w) {
    std::vector<double> const one{1};
    w.push(one);
    w.step();
  };
  t.run(t.stage({.workers = 2, .protocol = with(rb::asp{}, quarter_for_ever{})}, push_one));
  t.run(t.stage({.workers = 3, .protocol = with(rb::asp{}, rb::sum{})}, push_one));
  t.run(t.stage({.workers = 3, .protocol = rb::dyn_sgd{}}, push_one));  // three of one version: 1
  (void)engine.submit(t).wait();
  CHECK(t.parameters() == std::vector<double>{0.5 + 3 + 1});
}

TEST_CASE("task: a stage whose degree is searched for clears its tables once") {
  rb::engine engine{rb::simulated{.workers = 4}};
  rb::task t{counts{.rows = 1}};
  t.run(t.stage({.workers = 4, .iterations = 3}, counting{}));
  t.run(t.stage({.workers = rb::automatic, .iterations = 40, .cleared = {0}}, counting{}));
  auto const r = engine.submit(t).wait();
  std::int64_t expected = 0;
  for (auto const& s : r.stages)
    if (s.stage == 1) expected += s.iterations * static_cast<std::int64_t>(rb::workers_of(s.where));
  CHECK(r.stages.size() > 2);
  CHECK(t.parameters()[0] == expected);
}

TEST_CASE("task: an automatic degree is searched for once, within the stage's own iterations") {
  // 8 machines of 1 worker: a step takes 8 ms of one worker and is split; each commit costs latency.
  rb::engine engine{rb::simulated{.workers = 8, .scenario = {.speed = {.work_cost = 1us}}}};
  rb::task t{counts{.rows = 1}};
  auto const split = [](auto& w, rb::iteration_range todo) {
    std::vector<std::int64_t> seen(1);
    std::vector<std::int64_t> const one{1};
    for (auto i : todo) {
      (void)i;
      w.pull(seen);
      w.push(one);
      w.step(8000.0 / w.count());
    }
  };
  t.repeat(2, t.stage({.workers = rb::automatic, .iterations = 100, .search = {.growth = 2}}, split));
  auto const r = engine.submit(t).wait();
  REQUIRE(r.degrees.size() == 1);
  CHECK(r.degrees[0].workers == 8);
  CHECK(r.degrees[0].probes.size() == 4);
  CHECK(r.degrees[0].cost > 0ns);
  std::vector<std::int64_t> iterations;
  for (auto const& s : r.stages) iterations.push_back(s.iterations);
  CHECK(iterations == std::vector<std::int64_t>{10, 10, 10, 10, 60, 100});
  CHECK(t.parameters()[0] == 10 * (1 + 2 + 4 + 8) + 8 * 60 + 8 * 100);
  CHECK(r.elapsed() == r.stages.back().ended - r.stages.front().began);
}

// ---- several tasks

TEST_CASE("engine: tasks that do not depend on each other run side by side in virtual time") {
  rb::engine engine{rb::simulated{.workers = 4}};
  auto const busy = [](auto& w) { w.step(1000.0); };
  rb::task one{counts{.rows = 1}};
  rb::task two{counts{.rows = 1}};
  rb::task third{counts{.rows = 1}};
  one.run(one.stage({.workers = 2}, busy));
  two.run(two.stage({.workers = 2}, busy));
  third.run(third.stage({.workers = 1}, busy));
  auto const a = engine.submit(one);
  auto const b = engine.submit(two);
  auto const c = engine.submit(third, {a, b});
  rb::task_report const last = c.wait();
  CHECK(a.wait().stages[0].began == b.wait().stages[0].began);
  CHECK(last.stages[0].began == std::max(a.wait().ended, b.wait().ended));
}

TEST_CASE("engine: tasks share the workers that there are") {
  rb::engine engine{rb::simulated{.workers = 4}};
  auto const busy = [](auto& w) { w.step(1000.0); };
  std::vector<std::unique_ptr<rb::task<counts>>> tasks;
  std::vector<rb::submitted_task> all;
  for (int i = 0; i < 6; ++i) {
    tasks.push_back(std::make_unique<rb::task<counts>>(counts{.rows = 1}));
    tasks.back()->repeat(3, tasks.back()->stage({.workers = 3}, busy));
    all.push_back(engine.submit(*tasks.back()));
  }
  std::vector<std::pair<rb::time_point, rb::time_point>> spans;
  for (auto const& t : all)
    for (auto const& s : t.wait().stages) spans.emplace_back(s.began, s.ended);
  std::ranges::sort(spans);
  for (std::size_t i = 1; i < spans.size(); ++i) CHECK(spans[i].first >= spans[i - 1].second);  // 3 of 4 are busy
}

TEST_CASE("engine: tasks of threads run side by side as well", "[threads]") {
  rb::engine engine{rb::in_process{.workers = 2}};
  std::atomic<int> here = 0;
  auto const meet = [&](auto& w) {  // ends only if the other task's stage runs at the same time
    ++here;
    while (here < 2) std::this_thread::yield();
    w.step();
  };
  rb::task one{counts{.rows = 1}};
  rb::task two{counts{.rows = 1}};
  one.run(one.stage({.workers = 1}, meet));
  two.run(two.stage({.workers = 1}, meet));
  auto const a = engine.submit(one);
  auto const b = engine.submit(two);
  CHECK(a.wait().stages.size() == 1);
  CHECK(b.wait().stages.size() == 1);
}

TEST_CASE("engine: a task for which there is no thread may be submitted again", "[threads]") {
  rb::engine engine{rb::in_process{.workers = 1}};
  rb::task one{counts{.rows = 1}};
  one.run(one.stage({.workers = 1}, [](auto& w) { w.step(); }));
  {
    rb::test::no_more_threads const limit;
    CHECK_THROWS_WITH(engine.submit(one), Catch::StartsWith("a thread for task 0 cannot be started: "));
  }
  CHECK(engine.submit(one).wait().stages.size() == 1);
}

TEST_CASE("engine: a body that throws fails its task and those that depend on it, and no other", "[threads]") {
  auto const check = [](auto const& where) {
    rb::engine engine{where};
    rb::task bad{counts{.rows = 1}};
    rb::task after{counts{.rows = 1}};
    rb::task good{counts{.rows = 1}};
    bad.run(bad.stage({.workers = 2}, [](auto& w) {
      if (w.rank() == 1) throw std::runtime_error("no more of this");
      w.step();
    }));
    after.run(after.stage({}, counting{}));
    good.run(good.stage({.workers = 2, .iterations = 3}, counting{}));
    auto const a = engine.submit(bad);
    auto const b = engine.submit(after, {a});
    auto const c = engine.submit(good);
    CHECK_THROWS_WITH(a.wait(), Contains("no more of this"));
    CHECK_THROWS_WITH(b.wait(), Contains("task 0, which this one depends on, has failed"));
    (void)c.wait();
    CHECK(good.parameters()[0] == 6);
  };
  check(rb::in_process{.workers = 2});
  check(rb::simulated{.workers = 2});
}

TEST_CASE("engine: tasks may go before it, and it before tasks, whether somebody has waited or not", "[threads]") {
  auto const check = [](auto const& where, bool ran) {
    std::atomic<int> stages = 0;
    auto const note = [&](auto& w) {
      w.step();
      ++stages;
    };
    rb::task<counts> outlives{counts{.rows = 1}};
    {
      rb::engine engine{where};
      rb::task first{counts{.rows = 1}};
      first.repeat(3, first.stage({}, note));
      outlives.repeat(3, outlives.stage({}, note));
      (void)engine.submit(outlives);
      {
        rb::task second{counts{.rows = 1}};
        second.repeat(3, second.stage({}, note));
        (void)engine.submit(second);
      }
      (void)engine.submit(first).wait();
    }
    CHECK(stages >= 3);
    if (ran) CHECK(stages == 9);
  };
  check(rb::in_process{.workers = 2}, true);
  check(rb::simulated{.workers = 2}, false);
}

TEST_CASE("engine: after a task that was refused the next one begins at its own time") {
  rb::engine engine{rb::simulated{.workers = 2}};
  rb::task wrong{counts{.rows = 1}};
  wrong.run(wrong.stage({.workers = 3}, counting{}));
  CHECK_THROWS_WITH(engine.submit(wrong), Contains("no room for 3 workers"));
  rb::task good{counts{.rows = 1}};
  good.run(good.stage({.workers = 2, .where = {1, 1, 0}}, counting{}));  // nobody on a node that is not there
  auto const r = engine.submit(good).wait();
  CHECK(r.stages[0].began == rb::time_point{});
  CHECK(r.elapsed() > 0ns);
}

TEST_CASE("engine: a stage that lasts for all of virtual time has an end, and others may follow") {
  rb::engine engine{rb::simulated{.workers = 2}};
  rb::task endless{counts{.rows = 1}};
  endless.repeat(2, endless.stage({.workers = 2}, [](auto& w) { w.step(1e300); }));
  auto const r = engine.submit(endless).wait();
  REQUIRE(r.stages.size() == 2);
  for (auto const& s : r.stages) CHECK(s.ended == rb::time_point::max());
}

TEST_CASE("task: a search goes on over the runs of a stage that are shorter than it") {
  rb::engine engine{rb::simulated{.workers = 8, .scenario = {.speed = {.work_cost = 1us}}}};
  rb::task t{counts{.rows = 1}};
  auto const split = [](auto& w, rb::iteration_range todo) {
    std::vector<std::int64_t> seen(1);
    for (auto i : todo) (void)i, w.pull(seen), w.push(std::vector<std::int64_t>{1}), w.step(8000.0 / w.count());
  };
  t.repeat(9, t.stage({.workers = rb::automatic, .iterations = 5, .search = {.probe = 5, .growth = 2}}, split));
  auto const r = engine.submit(t).wait();
  std::vector<std::uint32_t> workers;
  for (auto const& s : r.stages) {
    workers.push_back(rb::workers_of(s.where));
    CHECK(s.first == 0);
  }
  CHECK(workers == std::vector<std::uint32_t>{1, 2, 4, 8, 8, 8, 8, 8, 8});
  CHECK(r.degrees.size() == 1);
}

TEST_CASE("engine: what cannot be meant is refused by name", "[threads]") {
  rb::engine engine{rb::in_process{.workers = 2}};
  rb::task t{counts{.rows = 1}};
  CHECK_THROWS_WITH(engine.submit(t), Contains("no stages to run"));
  CHECK_THROWS_WITH(t.stage({.workers = 0}, counting{}), Contains("workers must be at least 1"));
  CHECK_THROWS_WITH(t.stage({.iterations = 0}, counting{}), Contains("iterations must be at least 1"));
  CHECK_THROWS_WITH(t.stage({.workers = 2, .where = {1}}, counting{}), Contains("placement has 1 workers"));
  CHECK_THROWS_WITH(t.stage({.workers = rb::automatic, .where = {1}}, counting{}), Contains("not automatic"));
  CHECK_THROWS_AS(t.parameters(), rb::usage_error);
  t.run(t.stage({.workers = 2}, counting{}));
  auto const handle = engine.submit(t);
  handle.wait();
  CHECK_THROWS_WITH(engine.submit(t), Contains("submitted already"));
  CHECK_THROWS_AS(t.stage({}, counting{}), rb::usage_error);
  rb::task wrong{rb::dense<std::int64_t>{.rows = 1}};
  wrong.run(wrong.stage({.protocol = with(rb::bsp{}, rb::sum{})}, counting{}));
  wrong.run(wrong.stage({.protocol = with(rb::bsp{}, rb::average{})}, counting{}));
  CHECK_THROWS_WITH(engine.submit(wrong), Contains("exact merge"));
  rb::task table{counts{.rows = 1}};
  table.run(table.stage({.cleared = {1}}, counting{}));
  CHECK_THROWS_WITH(engine.submit(table), Contains("no table 1 to clear"));
  rb::task more{counts{.rows = 1}};
  CHECK_THROWS_WITH(more.stage({.priority = std::nan("")}, counting{}), Contains("priority must be a number"));
  rb::task two{counts{.rows = 1}};
  two.stage({}, counting{});
  auto const second = two.stage({}, counting{});
  CHECK_THROWS_WITH(more.run(second), Contains("stage 1 is of another task"));
  CHECK_THROWS_WITH(more.repeat(2, second), Contains("of another task"));
  CHECK_THROWS_WITH(more.run(second, 0), Contains("iterations must be at least 1"));
  more.run(more.stage({}, counting{}));
  rb::engine other{rb::in_process{.workers = 2}};
  CHECK_THROWS_WITH(other.submit(more, {handle}), Contains("of another engine"));
}

TEST_CASE("engine: a stage that could never run is refused before an earlier one has begun", "[threads]") {
  auto const check = [](auto const& where) {
    rb::engine engine{where};
    bool ran = false;
    auto const refused = [&](rb::stage_options const& o, std::string const& why) {
      INFO(why);
      rb::task t{counts{.rows = 1}};
      t.run(t.stage({}, [&](auto& w) {
        ran = true;
        w.step();
      }));
      t.run(t.stage(o, counting{}));
      CHECK_THROWS_AS(engine.submit(t), rb::option_error);
      CHECK_THROWS_WITH(engine.submit(t), Contains(why));
      CHECK_FALSE(t.is_open());
    };
    refused({.workers = 3}, "no room for 3 workers, all nodes together have 2");
    refused({.workers = 2, .where = {1, 1}}, "no room for 2 workers where it asks for them");
    refused({.workers = 1, .data = {rb::node_id{0}, rb::node_id{77}}}, "stage 1: it has data on node 77");
    rb::rules const drawn = rb::fed_avg{.clients = 1, .of = 2};
    refused({.workers = 1, .protocol = drawn}, "stage 1: it has 1 workers, expected 2, of which fed_avg draws some");
    refused({.workers = rb::automatic, .protocol = drawn, .iterations = 50}, "it has 1 to 2 workers, expected 2");
    rb::rules const sampled = rb::psp{.of = 4};
    refused({.workers = rb::automatic, .protocol = sampled, .search = {.first = 2}}, "has 2 workers, expected 4");
    CHECK_FALSE(ran);

    rb::task t{counts{.rows = 1}};
    (void)t.stage({.workers = 3}, counting{});  // never run
    auto const steps = [](auto& w, rb::iteration_range todo) {
      for (auto i : todo) (void)i, w.step();
    };
    t.run(t.stage({.workers = 2, .protocol = drawn}, steps));
    t.run(t.stage({.workers = rb::automatic, .protocol = drawn, .iterations = 4, .search = {.first = 2}}, steps));
    t.run(t.stage({.data = {rb::node_id{0}}}, counting{}));
    CHECK(engine.submit(t).wait().stages.size() == 3);
  };
  check(rb::in_process{.workers = 2});
  check(rb::simulated{.workers = 2, .scenario = {.machine_of = {0, 0}}});
}

TEST_CASE("engine: options of its schedule and of searches that cannot be meant are refused") {
  CHECK_THROWS_WITH((rb::engine{rb::in_process{.workers = 2}, {.free_workers = 3}}),
                    Contains("free_workers must be at most all workers, of which there are 2, but is 3"));
  CHECK_NOTHROW(rb::engine{rb::in_process{.workers = 2}, {.free_workers = 2}});
  rb::task t{counts{.rows = 1}};
  CHECK_THROWS_WITH(t.stage({.workers = 1, .search = {.probe = -5}}, counting{}), Contains("search: probe must be"));
}

TEST_CASE("task: a degree is found in parts only where the body is told of them") {
  rb::engine engine{rb::simulated{.workers = 4}};
  rb::task t{counts{.rows = 1}};
  auto const whole = [](auto& w) {
    w.push(std::vector<std::int64_t>{1});
    w.step();
  };
  CHECK_THROWS_WITH(t.stage({.workers = rb::automatic, .iterations = 2}, whole),
                    Contains("body(worker, iteration_range)"));
  auto const once = t.stage({.workers = rb::automatic}, whole);
  CHECK_THROWS_WITH(t.run(once, 30), Contains("its 30 iterations in parts"));
  CHECK_NOTHROW(t.stage({.workers = 2, .iterations = 30}, whole));
  t.repeat(2, once);
  t.run(once, 1);
  auto const r = engine.submit(t).wait();
  CHECK(r.stages.size() == 3);
  CHECK(t.parameters()[0] == 1 + 2 + 3);  // 1, 2 and 3 workers
}

// ---- FLEX-1, FLEX-2

namespace {

rb::rules random_protocol(rb::random_stream& random) {
  switch (random.below(5)) {
    case 0: return rb::bsp{};
    case 1: return rb::asp{};
    case 2: return rb::ssp{.staleness = static_cast<std::int64_t>(random.below(4))};
    case 3: return with(rb::ssp{.staleness = 1}, rb::strict{});
    default: return with(rb::con_sgd{.staleness = 2}, rb::sum{});
  }
}

/// A task of random stages, and what it should count up to.
struct random_task {
  random_task(rb::random_stream& random, std::uint32_t workers) : task(counts{.rows = 1}) {
    std::size_t const stages = 1 + static_cast<std::size_t>(random.below(5));
    for (std::size_t i = 0; i < stages; ++i) {
      rb::stage_options o{.protocol = with(random_protocol(random), rb::sum{})};
      auto const degree = static_cast<std::uint32_t>(1 + random.below(workers));
      o.iterations = static_cast<std::int64_t>(1 + random.below(6));
      if (random.chance(0.2)) o.cleared = {0}, expected = 0;
      o.workers = degree;
      o.priority = static_cast<double>(random.below(3));
      task.run(task.stage(o, counting{expected}));
      expected += degree * o.iterations;
    }
  }
  rb::task<counts> task;
  std::int64_t expected = 0;
};

}  // namespace

TEST_CASE("FLEX-2: over random graphs of tasks no update is lost or seen twice across a change of stage") {
  for (std::uint64_t i = 0; i < rb::test::seed_count(300); ++i) {
    std::uint64_t const seed = rb::test::first_seed() + i;
    INFO(rb::test::repeat_by(seed));
    rb::random_stream random(seed, 0);
    auto const workers = static_cast<std::uint32_t>(1 + random.below(8));
    rb::simulated where{.workers = workers, .servers = static_cast<std::uint32_t>(1 + random.below(3))};
    where.scenario.machine_of = rb::sim::blocks(workers, 1 + static_cast<std::size_t>(random.below(3)));
    where.scenario.speed.heterogeneity.level = 1 + 3 * random.uniform();
    where.scenario.seed = seed;
    rb::engine engine{where, {.free_workers = static_cast<std::uint32_t>(1 + random.below(workers)), .period = 1ms}};
    std::vector<std::unique_ptr<random_task>> tasks;
    std::vector<rb::submitted_task> handles;
    for (std::size_t t = 0; t < 1 + static_cast<std::size_t>(random.below(4)); ++t) {
      tasks.push_back(std::make_unique<random_task>(random, workers));
      std::vector<rb::submitted_task> after;
      for (auto const& h : handles)
        if (random.chance(0.3)) after.push_back(h);
      handles.push_back(engine.submit(tasks.back()->task, after));
    }
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      (void)handles[t].wait();
      REQUIRE(tasks[t]->task.parameters()[0] == tasks[t]->expected);
    }
  }
}

namespace {

/// Gradient steps of a small least-squares problem: order and grouping of additions matter to the last bit.
template <class Transport>
std::vector<float> trained(Transport const& where, std::vector<rb::placement> const& places) {
  rb::engine engine{where};
  std::vector<float> const start(40, 0.1F);
  rb::task t{rb::dense<float>{.rows = 40, .init = start}};
  for (rb::placement const& p : places)
    t.run(t.stage({.workers = rb::workers_of(p), .iterations = 4, .where = p}, [](auto& w, rb::iteration_range todo) {
      std::vector<float> x(40);
      std::vector<float> u(40);
      for (auto i : todo) {
        w.pull(x);
        for (std::size_t k = 0; k < x.size(); ++k)
          u[k] = 0.37F * (static_cast<float>((k + w.rank() + static_cast<std::size_t>(i)) % 7) - x[k]) / 3.0F;
        w.push(u);
        w.step();
      }
    }));
  (void)engine.submit(t).wait();
  return t.parameters();
}

}  // namespace

TEST_CASE("FLEX-1: under BSP a task's result does not depend on where its stages run, to the last bit", "[threads]") {
  rb::simulated where{.workers = 8, .servers = 3};
  where.scenario.machine_of = rb::sim::blocks(8, 4);
  where.scenario.speed.heterogeneity.level = 3;
  auto const here = trained(where, {{2, 2, 0, 0}, {1, 0, 0, 1}, {0, 0, 2, 1}});
  CHECK(trained(where, {{1, 1, 1, 1}, {0, 2, 0, 0}, {2, 1, 0, 0}}) == here);
  CHECK(trained(where, {{0, 0, 2, 2}, {0, 1, 1, 0}, {1, 1, 0, 1}}) == here);
  CHECK(trained(rb::in_process{.workers = 8, .servers = 2}, {{4}, {2}, {3}}) == here);
}
