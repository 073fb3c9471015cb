// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Stages that are begun again when a node is lost.
#include <rubato/task/task_run.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/protocol/adam.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/slow_mo.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/paged.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/task/engine.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

#include "seeds.hpp"
#include "task/counting.hpp"

namespace rb = rubato;
using namespace std::chrono_literals;
using Catch::Contains;
using rb::test::counting;
using rb::test::counts;

namespace {

/// Machines with two workers each, on which a unit of work takes 1 ms. Losses are noticed after 10 ms.
rb::simulated on_machines(std::uint32_t machines, std::vector<rb::sim::machine_loss> losses = {}) {
  rb::simulated s{.workers = 2 * machines, .servers = 2};
  s.scenario.machine_of = rb::sim::blocks(s.workers, machines);
  s.scenario.speed.work_cost = 1ms;
  s.scenario.machine_losses = std::move(losses);
  s.scenario.detection_delay = 10ms;
  return s;
}

struct stands {
  std::vector<float> dense, paged;
  std::map<std::uint64_t, float> sparse;
  friend bool operator==(stands const&, stands const&) = default;
};

/// Three stages, the second of which begins with a table at zero, and with what they came to.
stands trained(rb::simulated const& where, std::uint32_t restarts, rb::task_report* report = nullptr) {
  constexpr std::size_t size = 30;
  rb::engine engine{where};
  std::vector<float> const start(size, 0.1F);
  rb::task t{rb::dense<float, rb::sum>{.rows = size, .init = start},
             rb::paged<float, rb::sum>{{.rows = size}, {.memory_limit = 64, .chunk_bytes = 16}},
             rb::sparse<float, rb::sum>{.rows = 1000}};
  auto const body = [](auto& w, rb::iteration_range todo) {
    std::vector<float> x(size), u(size), one(1);
    for (auto const i : todo) {
      w.pull(x);
      for (std::size_t k = 0; k < size; ++k)
        u[k] = 0.37F * (static_cast<float>((k + w.rank() + static_cast<std::size_t>(i)) % 7) - x[k]) / 3.0F;
      w.push(u);
      std::vector<rb::key> const key{rb::key{static_cast<std::uint64_t>(i) * 3 + w.rank()}};
      w[rb::table<1>].push(key, std::vector<float>{x[0]});
      w[rb::table<2>].pull(key, one);
      w[rb::table<2>].push(key, std::vector<float>{one[0] / 3 + x[1]});
      w.step();
    }
  };
  rb::stage_options o{.workers = 3, .iterations = 8, .restarts = restarts};
  auto const first = t.stage(o, body);
  o.cleared = {1};
  o.copied = {};
  auto const second = t.stage(o, body);
  t.repeat(1, first, second, first);
  rb::task_report const r = engine.submit(t).wait();
  if (report != nullptr) *report = r;
  stands end{t.parameters<0>(), t.parameters<1>(), {}};
  auto const touched = t.parameters<2>();
  for (std::size_t i = 0; i < touched.keys.size(); ++i) end.sparse[touched.keys[i]] = touched.values[i];
  return end;
}

}  // namespace

TEST_CASE("restart: a stage whose node is lost is begun again elsewhere, as if it had not begun") {
  rb::task_report calm, stormy;
  stands const expected = trained(on_machines(4), 1, &calm);
  REQUIRE(calm.stages.size() == 3);
  REQUIRE(calm.stages[1].where == rb::placement{0, 0, 2, 1});
  rb::duration const middle = (calm.stages[1].began - calm.submitted) + calm.stages[1].run.elapsed / 2;
  CHECK(trained(on_machines(4, {{.machine = 2, .at = middle}}), 1, &stormy) == expected);
  REQUIRE(stormy.stages.size() == 4);
  CHECK_FALSE(stormy.stages[0].lost);
  CHECK(stormy.stages[1].lost);
  CHECK(stormy.stages[1].run.lost_nodes == std::vector<std::uint32_t>{2});
  CHECK(stormy.stages[1].run.crashes == 2);
  CHECK(stormy.stages[1].ended == calm.submitted + middle + 10ms);  // when it is noticed
  CHECK(stormy.stages[2].stage == 1);
  for (std::size_t i = 2; i < 4; ++i) CHECK(stormy.stages[i].where[2] == 0);
}

TEST_CASE("restart: what merges keep of the tables is as it was, too") {
  auto const merge = GENERATE(rb::merge_rule(rb::momentum{.mu = 0.9}), rb::merge_rule(rb::adam{}),
                              rb::merge_rule(rb::slow_momentum{}));
  auto const after = [&](std::vector<rb::sim::machine_loss> losses, rb::task_report& r) {
    rb::engine engine{on_machines(4, std::move(losses))};
    rb::task t{rb::dense<float>{.rows = 8}, rb::sparse<float>{.rows = 1000}};
    rb::rules p = rb::bsp{};
    p.merge = merge;
    auto const s = t.stage({.workers = 3, .protocol = p, .iterations = 5, .restarts = 1},
                           [](auto& w, rb::iteration_range todo) {
                             for (auto const i : todo) {
                               std::vector<float> x(8);
                               w.pull(x);
                               for (float& one : x) one = 0.1F * static_cast<float>(i % 3) - one / 5;
                               w.push(x);
                               std::vector<rb::key> const key{rb::key{static_cast<std::uint64_t>(i) % 4 * 7}};
                               w[rb::table<1>].push(key, std::vector<float>{x[0]});
                               w.step();
                             }
                           });
    t.repeat(2, s);
    r = engine.submit(t).wait();
    return std::pair(t.parameters<0>(), t.parameters<1>().values);
  };
  rb::task_report calm, stormy;
  auto const expected = after({}, calm);
  REQUIRE(calm.stages.size() == 2);
  rb::duration const middle = (calm.stages[1].began - calm.submitted) + calm.stages[1].run.elapsed / 2;
  std::size_t const where = calm.stages[1].where[2] != 0 ? 2 : 0;
  CHECK(after({{.machine = static_cast<std::uint32_t>(where), .at = middle}}, stormy) == expected);
  CHECK(stormy.stages.size() == 3);
}

TEST_CASE("restart: a machine that is lost between stages, or has none, is not used any more") {
  rb::task_report calm, r;
  stands const expected = trained(on_machines(4), 0, &calm);
  // Machine 3 has workers of the first stage no more, and machine 0 none of the second.
  rb::duration const second = calm.stages[1].began - calm.submitted;
  CHECK(trained(on_machines(4, {{.machine = 0, .at = second + 1ms}}), 0, &r) == expected);
  CHECK(r.stages.size() == 3);
  CHECK(r.stages[1].run.lost_nodes == std::vector<std::uint32_t>{0});
  CHECK_FALSE(r.stages[1].lost);
  CHECK(r.stages[2].where[0] == 0);
}

TEST_CASE(
    "restart: a stage whose machine is known to be lost before it begins asks for another one, and spends no attempt") {
  for (std::uint32_t const restarts : {0U, 1U}) {
    rb::simulated where = on_machines(4, {{.machine = 0, .at = 0ms}, {.machine = 2, .at = 9ms}});
    where.scenario.detection_delay = 0ms;
    rb::task_report r;
    if (restarts == 0) (void)trained(where, restarts, &r);
    else CHECK(trained(where, restarts, &r) == trained(on_machines(4), 0));
    REQUIRE(r.stages.size() >= 2);
    CHECK(r.stages[0].lost);
    CHECK(r.stages[0].run.completed == rb::completion::not_begun);
    CHECK(r.stages[0].run.lost_nodes == std::vector<std::uint32_t>{0});
    CHECK(r.stages[1].where[0] == 0);
    CHECK(r.stages[1].stage == 0);
  }
}

TEST_CASE("restart: a machine that is lost with the tables, between stages, ends their task and no other") {
  rb::engine engine{on_machines(2, {{.machine = 0, .at = 30ms}})};
  rb::task other{counts{.rows = 1}}, moving{counts{.rows = 1}};
  other.run(other.stage({.workers = 2, .iterations = 50, .where = {0, 2}}, counting{}));
  rb::stage_options here{.workers = 1, .iterations = 5, .where = {1}, .local = rb::single_machine{}};
  rb::stage_options there{.workers = 1, .iterations = 5, .where = {0, 1}, .local = rb::single_machine{}};
  moving.run(moving.stage(here, counting{}));
  moving.run(moving.stage(there, counting{}));  // waits for the other task's
  auto const one = engine.submit(other), two = engine.submit(moving);
  CHECK_THROWS_WITH(two.wait(), Contains("machine 0 was lost, with the tables of its stage"));
  CHECK(one.wait().stages.size() == 1);
}

TEST_CASE("restart: a loss that never comes, or that nobody ever notices, is none") {
  auto never = on_machines(3, {{.machine = 0, .at = rb::duration::max()}});
  auto unnoticed = on_machines(3, {{.machine = 0, .at = 1000h}});
  unnoticed.scenario.detection_delay = rb::duration::max();
  for (auto const& where : {never, unnoticed}) {
    rb::task_report report;
    CHECK(trained(where, 0, &report) == trained(on_machines(3), 0));
    for (auto const& s : report.stages) CHECK_FALSE(s.lost);
  }
}

TEST_CASE("restart: more losses than a stage may begin again end its task") {
  rb::simulated const where = on_machines(4, {{.machine = 0, .at = 5ms}, {.machine = 2, .at = 20ms}});
  CHECK_THROWS_AS(trained(where, 1), rb::lost_error);
  CHECK_THROWS_WITH(trained(where, 1), Contains("stage 0: a node was lost, after it had begun again 1 times"));
  CHECK(trained(where, 2) == trained(on_machines(4), 2));
}

TEST_CASE("restart: a stage that has no room any more fails, also while it waits for others") {
  rb::engine engine{on_machines(2, {{.machine = 0, .at = 5ms}})};
  rb::task running{counts{.rows = 1}}, waiting{counts{.rows = 1}}, later{counts{.rows = 1}};
  auto const slow = [](auto& w, rb::iteration_range todo) {
    for ([[maybe_unused]] auto i : todo) w.step();
  };
  running.run(running.stage({.workers = 4, .iterations = 20, .restarts = 3}, slow));
  waiting.run(waiting.stage({.workers = 3}, slow));
  later.run(later.stage({.workers = 2}, slow));
  auto const one = engine.submit(running), two = engine.submit(waiting), three = engine.submit(later);
  CHECK_THROWS_WITH(two.wait(), Contains("none have room for its next stage"));
  CHECK_THROWS_WITH(one.wait(), Contains("no room for 4 workers, all nodes together have 2; others have been lost"));
  CHECK_THROWS_AS(one.wait(), rb::lost_error);
  CHECK(three.wait().stages.size() == 1);
}

TEST_CASE("restart: a task whose nodes are all lost fails, and says so") {
  rb::engine engine{on_machines(2, {{.machine = 0, .at = 5ms}, {.machine = 1, .at = 6ms}})};
  rb::task t{counts{.rows = 1}};
  t.run(t.stage({.workers = rb::automatic, .iterations = 90, .restarts = 3}, counting{}));
  CHECK_THROWS_AS(engine.submit(t).wait(), rb::lost_error);
}

TEST_CASE("restart: a degree that is searched for goes on with the workers that are left") {
  rb::engine engine{on_machines(3, {{.machine = 0, .at = 25ms}})};
  rb::task t{counts{.rows = 1}};
  t.run(t.stage({.workers = rb::automatic, .protocol = rb::ssp{.staleness = 1}, .iterations = 90,
                 .spread = true, .restarts = 1},
                [](auto& w, rb::iteration_range todo) {
                  for ([[maybe_unused]] auto i : todo) w.step(6.0 / w.count());
                }));
  auto const r = engine.submit(t).wait();
  std::int64_t done = 0;
  bool lost = false;
  for (auto const& s : r.stages) {
    if (!s.lost) done += s.iterations;
    if (lost) CHECK(rb::workers_of(s.where) <= 4);
    lost = lost || s.lost;
  }
  CHECK(lost);
  CHECK(done == 90);
}

TEST_CASE("restart: a degree that is searched for waits for no more workers than are left") {
  rb::engine engine{on_machines(3, {{.machine = 0, .at = 5ms}})};
  rb::task running{counts{.rows = 1}}, waiting{counts{.rows = 1}};
  running.run(running.stage({.workers = 6, .iterations = 20}, [](auto& w, rb::iteration_range todo) {
    for ([[maybe_unused]] auto i : todo) w.step();
  }));
  // Six workers were there when it asked for them.
  waiting.repeat(2, waiting.stage({.workers = rb::automatic, .iterations = 30, .spread = true, .search = {.first = 6}},
                                  [](auto& w, rb::iteration_range todo) {
                                    for ([[maybe_unused]] auto i : todo) w.step(6.0 / w.count());
                                  }));
  auto const first = engine.submit(running), second = engine.submit(waiting);
  auto const r = second.wait();
  std::int64_t done = 0;
  for (auto const& s : r.stages) {
    CHECK(rb::workers_of(s.where) == 4);
    CHECK_FALSE(s.lost);
    done += s.iterations;
  }
  CHECK(done == 60);
  CHECK(r.stages.front().began >= first.wait().ended);
  REQUIRE(r.degrees.size() == 1);
  CHECK(r.degrees[0].workers == 4);
}

TEST_CASE("task: a search is not misled by a worker that crashes while its machine goes on") {
  rb::simulated where = on_machines(4);
  where.scenario.crashes = {{.worker = rb::worker_id{1}, .at = 2ms}};  // in each part with more than one
  rb::engine engine{where};
  rb::task t{counts{.rows = 1}};
  t.run(t.stage({.workers = rb::automatic, .iterations = 100, .spread = true, .search = {.probe = 4, .growth = 8}},
                [](auto& w, rb::iteration_range todo) {
                  for ([[maybe_unused]] auto i : todo) w.step(12.0 / w.count());
                }));
  auto const r = engine.submit(t).wait();
  REQUIRE(r.degrees.size() == 1);
  CHECK(r.degrees[0].probes.size() == 2);
  std::vector<std::uint32_t> degrees;
  for (auto const& s : r.stages) degrees.push_back(rb::workers_of(s.where));
  CHECK(degrees == std::vector<std::uint32_t>{1, 8, 8, 8});  // the second was no measure, the third one had to be
}

TEST_CASE("task: a search is not misled by a part that a lost node made slow, and reports what has been run") {
  rb::simulated where = on_machines(4, {{.machine = 1, .at = 52ms}});  // while two workers are tried
  where.scenario.detection_delay = 60ms;
  rb::engine engine{where};
  rb::task t{counts{.rows = 1}};
  t.repeat(2, t.stage({.workers = rb::automatic, .iterations = 100, .spread = true, .search = {.probe = 4}},
                      [](auto& w, rb::iteration_range todo) {
                        for ([[maybe_unused]] auto i : todo) w.step(12.0 / w.count());
                      }));
  auto const r = engine.submit(t).wait();
  REQUIRE(r.degrees.size() == 1);
  CHECK(r.degrees[0].workers == 6);  // of eight, two were lost
  CHECK(rb::workers_of(r.stages.back().where) == 6);
  bool lost = false;
  for (auto const& s : r.stages) lost = lost || s.lost;
  CHECK(lost);
  for (std::size_t i = 0; i < r.degrees[0].probes.size(); ++i) {
    auto const& p = r.degrees[0].probes[i];
    CHECK(std::ranges::any_of(r.stages, [&](auto const& s) { return rb::workers_of(s.where) == p.workers; }));
    if (i != 0) CHECK(p.workers > r.degrees[0].probes[i - 1].workers);
  }
}

TEST_CASE("task: nor by two such parts, one after the other") {
  rb::simulated where = on_machines(5, {{.machine = 1, .at = 52ms}, {.machine = 3, .at = 130ms}});
  where.scenario.detection_delay = 60ms;
  rb::engine engine{where};
  rb::task t{counts{.rows = 1}};
  t.run(t.stage({.workers = rb::automatic, .iterations = 100, .spread = true, .search = {.probe = 4}},
                [](auto& w, rb::iteration_range todo) {
                  for ([[maybe_unused]] auto i : todo) w.step(12.0 / w.count());
                }));
  auto const r = engine.submit(t).wait();
  REQUIRE(r.stages.size() > 4);
  for (std::size_t const i : {1U, 2U}) {
    CHECK(r.stages[i].lost);
    CHECK(rb::workers_of(r.stages[i].where) == 2);
  }
  REQUIRE(r.degrees.size() == 1);
  CHECK(r.degrees[0].workers == 6);  // of ten, four were lost
  for (auto const& p : r.degrees[0].probes) CHECK(p.per_iteration * p.workers < 15ms);  // 12 are its work
}

TEST_CASE("restart: parts that may begin again give the tables back, and others keep them") {
  for (std::uint32_t const restarts : {0U, 1U}) {
    rb::stage_scheduler nodes;
    nodes.add_node(rb::node_id{0}, 2);
    rb::task t{counts{.rows = 1}};
    t.run(t.stage({.workers = rb::automatic, .iterations = 90, .local = rb::single_machine{}, .restarts = restarts},
                  counting{}));
    rb::task_run run(t, nodes, {});
    REQUIRE(run.next({}).has_value());
    rb::run_request const first = run.begin({1}, {});
    CHECK(first.keeps_tables == (restarts == 0));
    CHECK(first.recover == (restarts == 0 ? rb::recovery::none : rb::recovery::keep));
  }
}

TEST_CASE("FLEX-2: over random losses and stages no update is lost or seen twice") {
  for (std::uint64_t run = 0; run < rb::test::seed_count(300); ++run) {
    std::uint64_t const seed = rb::test::first_seed() + run;
    INFO(rb::test::repeat_by(seed));
    rb::random_stream random(seed, 0);
    std::vector<rb::sim::machine_loss> losses;
    for (std::uint32_t m = 0; m < 4; ++m)
      if (random.chance(0.4))
        losses.push_back({.machine = m, .at = std::chrono::milliseconds(random.below(100))});
    rb::simulated where = on_machines(5, losses);
    where.scenario.seed = seed;
    where.scenario.one_process_per_machine = random.chance(0.5);
    rb::engine engine{where};
    rb::task t{counts{.rows = 1}};
    rb::random_stream renewals(seed, 0xe55b);
    std::int64_t at_least = 0;
    for (std::uint64_t stages = 1 + random.below(5); stages != 0; --stages) {
      auto const workers = static_cast<std::uint32_t>(1 + random.below(2));
      auto const iterations = static_cast<std::int64_t>(1 + random.below(20));
      rb::stage_options o{.workers = workers,
                          .protocol = rb::ssp{.staleness = static_cast<std::int64_t>(random.below(3))},
                          .iterations = iterations,
                          .spread = random.chance(0.5),
                          .restarts = 4};
      if (random.chance(0.4)) {
        o.spread = false;
        o.local = rb::single_machine{};
      }
      bool const searched = random.chance(0.3);  // in parts, between which tables may stay where they are
      if (searched) o.workers = rb::automatic;
      if (renewals.chance(0.4)) o.protocol = with(o.protocol, rb::refreshed{});
      t.run(t.stage(o, counting{at_least}));
      at_least += searched ? iterations : workers * iterations;
    }
    std::int64_t expected = 0;
    for (auto const& s : engine.submit(t).wait().stages)
      if (!s.lost) expected += rb::workers_of(s.where) * s.iterations;
    REQUIRE(t.parameters()[0] == expected);
  }
}

TEST_CASE("restart: in process nothing is kept, as nothing is lost", "[threads]") {
  rb::engine engine{rb::in_process{.workers = 2}};
  rb::task t{counts{.rows = 1}};
  t.run(t.stage({.workers = 2, .iterations = 10, .restarts = 2}, counting{}));
  (void)engine.submit(t).wait();
  CHECK(t.parameters()[0] == 20);
}
