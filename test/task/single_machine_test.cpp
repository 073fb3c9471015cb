// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/run/single_machine.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/partition/hash.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/storage/paged.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/task/engine.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/transport/tcp.hpp>
#include <rubato/worker/endpoint.hpp>

#include "seeds.hpp"
#include "task/counting.hpp"
#include "task/processes.hpp"

namespace rb = rubato;
using namespace std::chrono_literals;
using Catch::Contains;
using rb::preparation;
using rb::single_machine;
using rb::test::counting;
using rb::test::counts;
using rb::test::processes;

namespace {

/// A stage of this many workers on a node, in single-machine mode or not.
struct step {
  std::uint32_t node = 0;
  std::uint32_t workers = 1;
  std::optional<single_machine> local{};
  bool clears = false;
};

constexpr std::size_t weights = 40;

/// What tables of three kinds, each as its store keeps it, came to.
struct parameters {
  std::vector<float> dense, paged;
  std::map<std::uint64_t, float> sparse;
  friend bool operator==(parameters const&, parameters const&) = default;
};

/// Gradient steps of a small least-squares problem, whole and by key: order and grouping of additions matter to the
/// last bit.
template <class Transport>
parameters trained(Transport const& where, std::uint32_t nodes, std::vector<step> const& steps, rb::rules const& p) {
  rb::engine engine{where};
  std::vector<float> const start(weights, 0.1F);
  rb::task t{rb::dense<float, rb::sum, rb::hash>{.rows = weights, .init = start},
             rb::paged<float, rb::sum>{{.rows = weights, .init = start}, {.memory_limit = 64, .chunk_bytes = 16}},
             rb::sparse<float, rb::sum>{.rows = 1000}};
  for (step const& s : steps) {
    rb::placement place(nodes);
    place[s.node % nodes] = s.workers;
    rb::stage_options o{.workers = s.workers, .protocol = p, .iterations = 3, .where = place, .local = s.local};
    if (s.clears) o.cleared = {1};
    t.run(t.stage(o, [](auto& w, rb::iteration_range todo) {
      std::vector<float> x(weights), u(weights), some(4), more(4);
      for (auto i : todo) {
        auto const from = static_cast<std::uint64_t>(w.rank()) * 3 + static_cast<std::uint64_t>(i);
        std::vector<rb::key> const keys{rb::key{from}, rb::key{from + 7}, rb::key{from + 8}, rb::key{from + 20}};
        w.pull(x);
        for (std::size_t k = 0; k < weights; ++k)
          u[k] = 0.37F * (static_cast<float>((k + w.rank() + static_cast<std::size_t>(i)) % 7) - x[k]) / 3.0F;
        w.push(u);
        w[rb::table<1>].pull(keys, some);
        for (float& one : some) one = 0.3F * (1 - one);
        w[rb::table<1>].push(keys, some);
        w[rb::table<2>].pull(keys, more);
        for (std::size_t k = 0; k < 4; ++k) more[k] = some[k] + 0.1F * (2 - more[k]) / 7;
        w[rb::table<2>].push(keys, more);
        w.step();
      }
    }));
  }
  (void)engine.submit(t).wait();
  parameters end{t.template parameters<0>(), t.template parameters<1>(), {}};
  auto const touched = t.template parameters<2>();
  for (std::size_t i = 0; i < touched.keys.size(); ++i) end.sparse[touched.keys[i]] = touched.values[i];
  return end;
}

rb::simulated four_machines() {
  rb::simulated s{.workers = 8, .servers = 3};
  s.scenario.machine_of = rb::sim::blocks(8, 4);
  s.scenario.server_machine_of = {0, 1, 7};
  s.scenario.speed.heterogeneity.level = 3;
  return s;
}

single_machine const on_demand{.prepare = preparation::on_demand, .chunk_bytes = 20};
single_machine const integral{.prepare = preparation::integral, .chunk_bytes = 20};
single_machine const by_servers{.prepare = preparation::on_demand, .chunk_bytes = 30, .direct = false};

std::vector<step> const some_steps{{0, 2, on_demand},  {1, 2, integral},   {1, 1, on_demand}, {1, 2, on_demand},
                                   {0, 1, {}},         {1, 2, integral},   {1, 2, integral, true}, {1, 1, integral},
                                   {0, 2, on_demand},  {1, 1, by_servers}, {0, 2, by_servers}, {0, 1, on_demand},
                                   {1, 2, by_servers}, {0, 1, integral},   {0, 2, {}}};

std::vector<step> without_local(std::vector<step> steps) {
  for (step& s : steps) s.local.reset();
  return steps;
}

}  // namespace

TEST_CASE("FLEX-1: under BSP single-machine mode changes no bit, however the parameters come", "[threads]") {
  parameters const expected =
      trained(rb::in_process{.workers = 2, .servers = 2}, 1, without_local(some_steps), rb::bsp{});
  CHECK(trained(four_machines(), 4, without_local(some_steps), rb::bsp{}) == expected);
  CHECK(trained(four_machines(), 4, some_steps, rb::bsp{}) == expected);
  CHECK(trained(rb::in_process{.workers = 2, .servers = 2}, 1, some_steps, rb::bsp{}) == expected);
  std::vector<parameters> ends(2);
  auto const said = processes("flex-1").run([&](rb::tcp const& where, int worker) {
    auto program = [&] { return trained(where, 2, some_steps, rb::bsp{}); };
    if (worker < 0) (void)program();
    else ends[static_cast<std::size_t>(worker)] = program();
  });
  CHECK(said == std::vector<std::string>(2));
  CHECK(ends[0] == expected);
  CHECK(ends[1] == expected);
}

TEST_CASE("FLEX-1: over random stages in virtual time") {
  for (std::uint64_t run = 0; run < rb::test::seed_count(300); ++run) {
    std::uint64_t const seed = rb::test::first_seed() + run;
    INFO(rb::test::repeat_by(seed));
    rb::random_stream random(seed, 0);
    std::vector<step> steps(1 + random.below(6));
    for (step& s : steps) {
      s.node = static_cast<std::uint32_t>(random.below(4));
      s.workers = static_cast<std::uint32_t>(1 + random.below(2));
      s.clears = random.chance(0.2);
      if (random.chance(0.7))
        s.local = {.prepare = random.chance(0.5) ? preparation::integral : preparation::on_demand,
                   .chunk_bytes = 1 + static_cast<std::size_t>(random.below(100)),
                   .direct = random.chance(0.5)};
    }
    rb::rules const plain = rb::bsp{};  // under which no read may be of a copy that was renewed in the clock before
    REQUIRE(trained(four_machines(), 4, steps, random.chance(0.4) ? with(plain, rb::refreshed{}) : plain) ==
            trained(four_machines(), 4, without_local(steps), plain));
  }
}

TEST_CASE("FLEX-2: no update is lost or seen twice in single-machine mode, under any protocol", "[threads]") {
  std::vector<std::int64_t> ends(2);
  std::vector<rb::rules> const protocols{rb::asp{}, rb::ssp{.staleness = 2},
                                         with(rb::ssp{.staleness = 1}, rb::stable_cut{})};
  auto const program = [&](auto const& where, std::uint32_t nodes) {
    rb::engine engine{where};
    rb::task t{counts{.rows = 1}};
    std::int64_t before = 0;
    for (std::uint32_t i = 0; i < 6; ++i) {
      rb::placement place(nodes);
      place[i / 2 % nodes] = 2;
      t.run(t.stage(
          {.workers = 2, .protocol = protocols[i % 3], .iterations = 5, .where = place, .local = single_machine{}},
          counting{before}));
      before += 2 * 5;
    }
    (void)engine.submit(t).wait();
    return t.parameters()[0];
  };
  CHECK(program(four_machines(), 4) == 60);
  auto const said = processes("flex-2").run([&](rb::tcp const& where, int worker) {
    if (worker < 0) (void)program(where, 2);
    else ends[static_cast<std::size_t>(worker)] = program(where, 2);
  });
  CHECK(said == std::vector<std::string>(2));
  CHECK(ends == std::vector<std::int64_t>{60, 60});
}

TEST_CASE("single_machine: versions that a stage leaves live go back with what they count", "[threads]") {
  std::vector<double> ends(2);
  auto const program = [](auto const& where, std::optional<single_machine> local) {
    rb::engine engine{where};
    rb::task t{rb::multi_version<rb::dense<double>>{{.rows = 3}}};
    auto const stage = t.stage({.workers = 1, .protocol = rb::dyn_sgd{}, .local = local}, [](auto& w) {
      std::vector<double> x(3);
      for (int i = 0; i < 5; ++i) {
        w.pull(x);
        for (double& one : x) one = 1 - one / 3;
        w.push(x);
        w.step();
      }
    });
    t.repeat(2, stage);
    (void)engine.submit(t).wait();
    return t.parameters()[2];
  };
  auto const said = processes("versions").run([&](rb::tcp const& where, int worker) {
    if (worker < 0) (void)program(where, single_machine{});
    else ends[static_cast<std::size_t>(worker)] = program(where, single_machine{});
  });
  CHECK(said == std::vector<std::string>(2));
  double const expected = program(rb::in_process{}, {});
  CHECK(expected != 0);
  CHECK(ends == std::vector<double>{expected, expected});
}

// ---- in virtual time

namespace {

/// A worker's time for a stage that pulls these rows of 1000, one after the other, and adds to the last; messages
/// between machines take 1 ms.
rb::duration time_of(std::optional<single_machine> local, std::vector<std::uint64_t> const& pulled, bool pushes) {
  rb::simulated where{.workers = 2};
  where.scenario.machine_of = {0, 1};
  where.scenario.network = {.worker_link = {.latency = 1ms}, .local_link = {.latency = 0ms}};
  rb::engine engine{where};
  rb::task t{counts{.rows = 1000}};
  t.run(t.stage({.protocol = rb::asp{}, .where = {0, 1}, .local = local}, [&](auto& w) {
    std::vector<std::int64_t> one(1);
    for (std::uint64_t const row : pulled) {
      w.pull(std::vector{rb::key{row}}, one);
      if (pushes) w.push(std::vector{rb::key{row}}, one);
      w.step(0);
    }
  }));
  return engine.submit(t).wait().stages[0].run.elapsed;
}

}  // namespace

TEST_CASE("single_machine: what comes and goes takes its time, and nothing else does") {
  single_machine const chunks{.prepare = preparation::on_demand, .chunk_bytes = 100 * sizeof(std::int64_t)};
  single_machine const all{.prepare = preparation::integral};
  std::vector<std::uint64_t> const near{5, 99, 50}, far{5, 100, 999, 6};
  CHECK(time_of({}, near, false) == 6ms);
  CHECK(time_of(chunks, near, false) == 2ms);
  CHECK(time_of(chunks, far, false) == 6ms);
  CHECK(time_of(all, far, false) == 2ms);
  CHECK(time_of(chunks, near, true) == 3ms);
  CHECK(time_of(all, far, true) == 3ms);
}

TEST_CASE("single_machine: the next stage on the same node goes on with what is there") {
  rb::simulated where{.workers = 2};
  where.scenario.machine_of = {0, 1};
  where.scenario.network = {.worker_link = {.latency = 1ms}, .local_link = {.latency = 0ms}};
  rb::engine engine{where};
  rb::task t{counts{.rows = 1000}};
  auto const look = [](auto& w) {
    std::vector<std::int64_t> all(1000);
    w.pull(all);
    w.step(0);
  };
  rb::stage_options const here{.protocol = rb::asp{}, .where = {1, 0}, .local = single_machine{.direct = false}};
  rb::stage_options there = here, anew = here, other = here;
  there.where = {0, 1};
  anew.cleared = {0};
  other.local->prepare = preparation::integral;
  for (rb::stage_options const& o : {here, here, there, here, anew, here, other}) t.run(t.stage(o, look));
  auto const r = engine.submit(t).wait();
  std::vector<rb::duration> took;
  for (auto const& s : r.stages) took.push_back(s.run.elapsed);
  CHECK(took == std::vector<rb::duration>{2ms, 0ms, 2ms, 2ms, 2ms, 0ms, 0ms});
}

TEST_CASE("single_machine: parts of a stage, and stages in one place, stay there, and give back in the end") {
  rb::simulated where{.workers = 4};
  where.scenario.machine_of = {0, 0, 1, 1};
  where.scenario.network = {.worker_link = {.latency = 1ms}, .local_link = {.latency = 0ms}};
  rb::engine engine{where};
  rb::task t{counts{.rows = 1000}};
  auto const add = [](auto& w, rb::iteration_range todo) {
    std::vector<std::int64_t> all(1000);
    for ([[maybe_unused]] auto i : todo) {
      w.pull(all);
      w.push(std::vector<std::int64_t>(1000, 1));
      w.step(1000.0 / w.count());
    }
  };
  auto const searched =
      t.stage({.workers = rb::automatic, .protocol = rb::asp{}, .iterations = 40, .local = single_machine{}}, add);
  rb::stage_options o{.protocol = rb::asp{}, .where = {1, 0}, .local = single_machine{}};
  auto const one = t.stage(o, add), two = t.stage(o, add);
  o.cleared = {0};
  auto const anew = t.stage(o, add);
  t.repeat(1, searched, one, two, anew);
  auto const r = engine.submit(t).wait();
  std::vector<rb::placement> places;
  std::vector<rb::duration> took;
  for (auto const& s : r.stages) {
    places.push_back(s.where);
    took.push_back(s.run.elapsed);
  }
  CHECK(places == std::vector<rb::placement>{{1, 0}, {1, 0}, {2, 0}, {2, 0}, {1, 0}, {1, 0}, {1, 0}});
  CHECK(took == std::vector<rb::duration>{2ms + 10ms, 10ms, 5ms, 5ms, 1ms, 1ms + 1ms, 2ms + 1ms + 1ms});
  CHECK(t.parameters()[999] == 1);
}

TEST_CASE("single_machine: a search is not misled by the time in which the tables come") {
  rb::simulated where{.workers = 4};
  where.scenario.machine_of = {0, 0, 0, 0};
  where.scenario.network = {.worker_link = {.latency = 100ms}, .local_link = {.latency = 0ms}};
  where.scenario.speed = {.work_cost = 1us};
  auto const add = [](auto& w, rb::iteration_range todo) {
    std::vector<std::int64_t> all(1000);
    for ([[maybe_unused]] auto i : todo) {
      w.pull(all);
      w.push(std::vector<std::int64_t>(1000, 1));
      w.step(1000.0 * w.count());  // one worker is the fastest
    }
  };
  auto const prepare = GENERATE(preparation::on_demand, preparation::integral);
  rb::engine engine{where};
  rb::task t{counts{.rows = 1000}};
  rb::stage_options o{.workers = rb::automatic, .protocol = rb::asp{}, .iterations = 100};
  o.local = single_machine{.prepare = prepare};
  t.run(t.stage(o, add));
  o.cleared = {0};  // they come anew
  t.run(t.stage(o, add));
  auto const r = engine.submit(t).wait();
  REQUIRE(r.degrees.size() == 2);
  for (auto const& found : r.degrees) {
    CHECK(found.workers == 1);
    REQUIRE(found.probes.size() == 2);
    CHECK(found.probes[0].per_iteration == 1ms);
    CHECK(found.probes[1].per_iteration == 2ms);
  }
}

TEST_CASE("single_machine: tables go from node to node, around the servers, where stages follow each other") {
  rb::simulated where{.workers = 2};
  where.scenario.machine_of = {0, 1};
  // A table of 1000 bytes takes 1 ms.
  where.scenario.network = {.worker_link = {.latency = 1ms, .bandwidth = 1'000'000}, .local_link = {.latency = 0ms},
                            .header_bytes = 0};
  auto const took = [&](bool direct, bool changes) {
    rb::engine engine{where};
    rb::task t{counts{.rows = 125}};
    auto const add = [](auto& w) {
      w.push(std::vector<std::int64_t>(125, 1));
      std::vector<std::int64_t> all(125);
      w.pull(all);
      w.step(0);
    };
    rb::stage_options one{.protocol = rb::asp{}, .where = {1, 0}, .local = single_machine{.direct = direct}}, two = one;
    two.where = {0, 1};
    if (changes) two.cleared = {0};
    t.run(t.stage(one, add));
    t.run(t.stage(two, add));
    auto const r = engine.submit(t).wait();
    CHECK(t.parameters()[124] == (changes ? 1 : 2));
    return std::vector<rb::duration>{r.stages[0].run.elapsed, r.stages[1].run.elapsed};
  };
  // There, and back with its bytes; and from there to the servers, or the other node.
  rb::duration const comes = 2ms + 1ms, goes = 1ms + 1ms;
  CHECK(took(false, false) == std::vector<rb::duration>{comes + goes, comes + goes});
  CHECK(took(true, false) == std::vector<rb::duration>{comes, goes + goes});
  CHECK(took(true, true) == std::vector<rb::duration>{comes + goes, comes + goes});
}

// ---- what cannot be meant, and what goes wrong

TEST_CASE("single_machine: what cannot be meant is refused by name") {
  rb::engine engine{four_machines()};
  rb::task t{counts{.rows = 1}, rb::dense<float, rb::momentum>{.rows = 1}};
  auto const refused = [&](rb::stage_options const& o, char const* why) {
    CHECK_THROWS_WITH(t.stage(o, counting{}), Contains(why));
  };
  refused({.local = single_machine{.chunk_bytes = 0}}, "chunk_bytes must be at least 1");
  refused({.local = single_machine{.prepare = static_cast<preparation>(9)}}, "prepare is 9");
  refused({.workers = 2, .where = {1, 1}, .local = single_machine{}}, "all of its workers on one node");
  refused({.workers = 2, .spread = true, .local = single_machine{}}, "all of its workers on one node");
  t.run(t.stage({.local = single_machine{}}, counting{}));
  CHECK_THROWS_WITH(engine.submit(t), Contains("without velocity, but table 1"));
  rb::task large{counts{.rows = 1}};
  large.run(large.stage({.workers = 3, .local = single_machine{}}, counting{}));
  CHECK_THROWS_WITH(engine.submit(large).wait(), Contains("no room for 3 workers on one node"));
}

TEST_CASE("single_machine: a degree that is searched for ends at what one node has room for") {
  auto where = four_machines();
  where.scenario.speed = {};
  rb::engine engine{where};
  rb::task t{counts{.rows = 1}};
  t.run(t.stage({.workers = rb::automatic, .protocol = rb::asp{}, .iterations = 60, .local = single_machine{}},
                [](auto& w, rb::iteration_range todo) {
                  for ([[maybe_unused]] auto i : todo) w.step(1.0 / w.count());
                }));
  auto const r = engine.submit(t).wait();
  REQUIRE(r.degrees.size() == 1);
  CHECK(r.degrees[0].workers == 2);
}

TEST_CASE("single_machine: over TCP what a body throws ends the task for all", "[threads]") {
  auto const said = processes("throws").run([&](rb::tcp const& where, int) {
    rb::engine engine{where};
    rb::task t{counts{.rows = 1}};
    t.run(t.stage({.workers = 2, .iterations = 1000, .where = {0, 2}, .local = single_machine{}},
                  [](auto& w, rb::iteration_range todo) {
                    if (w.rank() == 1) throw rb::error(rb::errc::stopped, "no more of this");
                    counting{}(w, todo);
                  }));
    (void)engine.submit(t).wait();
  });
  CHECK_THAT(said[0], Contains("no more of this"));
  CHECK_THAT(said[1], Contains("no more of this"));
}

TEST_CASE("single_machine: workers whose rows of different tables come at the same time get their own", "[threads]") {
  std::atomic<int> wrong = 0;
  std::vector<std::int64_t> up(4000), down(4000);
  for (std::size_t i = 0; i < up.size(); ++i) {
    up[i] = static_cast<std::int64_t>(i);
    down[i] = -up[i];
  }
  auto const said = processes("two-tables").run([&](rb::tcp const& where, int) {
    rb::engine engine{where};
    rb::task t{counts{.rows = up.size(), .init = up}, counts{.rows = down.size(), .init = down}};
    t.run(t.stage({.workers = 2, .protocol = rb::asp{}, .where = {0, 2}, .local = single_machine{.chunk_bytes = 8}},
                  [&](auto& w) {
                    std::vector<std::int64_t> one(1);
                    for (std::size_t i = 0; i < up.size(); ++i) {
                      std::vector<rb::key> const k{rb::key{i}};
                      if (w.rank() == 0) w[rb::table<0>].pull(k, one);
                      else w[rb::table<1>].pull(k, one);
                      if (one[0] != (w.rank() == 0 ? up : down)[i]) ++wrong;
                    }
                  }));
    (void)engine.submit(t).wait();
  });
  CHECK(said == std::vector<std::string>(2));
  CHECK(wrong == 0);
}

TEST_CASE("single_machine: over TCP a worker that is added works on the same tables", "[threads]") {
  std::vector<std::int64_t> ends(2);
  std::atomic<int> bodies = 0;
  std::atomic<std::uint32_t> added = 0;
  auto const said = processes("added").run([&](rb::tcp const& where, int worker) {
    rb::engine engine{where};
    rb::task t{counts{.rows = 1}};
    t.run(t.stage({.protocol = rb::asp{}, .where = {1, 0}, .local = single_machine{}}, [&](auto& w) {
      if (++bodies == 1) added = t.opened().add_worker();
      while (bodies != 2) std::this_thread::yield();
      w.push(std::vector<std::int64_t>{1});
      w.step();
    }));
    (void)engine.submit(t).wait();
    if (worker >= 0) ends[static_cast<std::size_t>(worker)] = t.parameters()[0];
  });
  CHECK(said == std::vector<std::string>(2));
  CHECK(added == 1);
  CHECK(ends == std::vector<std::int64_t>{2, 2});
}

TEST_CASE("single_machine: over TCP decorators stand before the stage's workers, and nobody else", "[threads]") {
  std::atomic<int> decorated = 0;
  auto const said = processes("decorated").run([&](rb::tcp const& where, int) {
    rb::engine engine{rb::decorated{where, [&](rb::endpoint& inner, rb::worker_id) {
                                      ++decorated;
                                      return std::make_unique<rb::endpoint_decorator>(inner);
                                    }}};
    rb::task t{counts{.rows = 1}};
    // The second one has a worker of the first's process that hands over the tables.
    for (rb::placement const& place : {rb::placement{2, 0}, rb::placement{0, 2}})
      t.run(t.stage({.workers = 2, .where = place, .local = single_machine{}}, counting{}));
    t.run(t.stage({.workers = 4}, counting{}));
    (void)engine.submit(t).wait();
  });
  CHECK(said == std::vector<std::string>(2));
  CHECK(decorated == 2 + 2 + 4);
}

TEST_CASE("single_machine: over TCP a process at rest keeps no tables of another's stage", "[threads]") {
  // Of each stage's end the servers have what the next one begins with, also where it was before.
  std::vector<std::int64_t> ends(2);
  auto const said = processes("at-rest").run([&](rb::tcp const& where, int worker) {
    rb::engine engine{where};
    rb::task t{counts{.rows = 100}};
    auto const add = [](auto& w) {
      std::vector<std::int64_t> all(100);
      w.pull(all);
      for (auto& x : all) x += 1;  // what is there doubles, and one more
      w.push(all);
      w.step();
    };
    auto const first = t.stage({.where = {1, 0}, .local = by_servers}, add);
    auto const second = t.stage({.where = {0, 1}, .local = by_servers}, add);
    auto const by_all = t.stage({.where = {0, 1}}, add);
    t.repeat(1, first, second, first, by_all, first);
    (void)engine.submit(t).wait();
    if (worker >= 0) ends[static_cast<std::size_t>(worker)] = t.parameters()[99];
  });
  CHECK(said == std::vector<std::string>(2));
  CHECK(ends == std::vector<std::int64_t>{31, 31});
}

TEST_CASE("single_machine: over TCP sparse tables go back in messages that servers take", "[threads]") {
  std::uint64_t const rows = 3 * 4096 + 5;
  std::vector<std::size_t> ends(2);
  auto const said = processes("sparse-max").run([&](rb::tcp where, int worker) {
    where.sparse_max = 4096 * 2 * sizeof(float) * 4;  // not all at once
    rb::engine engine{where};
    rb::task t{rb::sparse<float, rb::sum>{.rows = rows, .width = 2}};
    t.run(t.stage({.where = {0, 1}, .local = single_machine{}}, [&](auto& w) {
      std::vector<rb::key> keys;
      for (std::uint64_t k = 0; k < rows; ++k) keys.push_back(rb::key{k});
      w.push(keys, std::vector<float>(2 * rows, 1.0F));
      w.step();
    }));
    (void)engine.submit(t).wait();
    if (worker >= 0) ends[static_cast<std::size_t>(worker)] = t.parameters().keys.size();
  });
  CHECK(said == std::vector<std::string>(2));
  CHECK(ends == std::vector<std::size_t>{rows, rows});
}

TEST_CASE("single_machine: over TCP a run that is ended elsewhere ends here, whatever its workers wait for",
          "[threads]") {
  for (preparation const how : {preparation::on_demand, preparation::integral}) {
    std::atomic<bool> begun = false;
    auto const said = processes("ended").run([&](rb::tcp const& where, int worker) {
      rb::engine engine{where};
      rb::task t{counts{.rows = 1}};
      t.run(
          t.stage({.workers = 2, .iterations = 1'000'000'000, .where = {0, 2}, .local = single_machine{.prepare = how}},
                  [&](auto& w, rb::iteration_range todo) {
                    begun = true;
                    begun.notify_all();
                    counting{}(w, todo);
                  }));
      auto const submitted = engine.submit(t);
      if (worker != 0) return (void)submitted.wait();
      std::jthread ends([&] {
        begun.wait(false);
        t.opened().stop();
      });
      (void)submitted.wait();
    });
    CHECK(said == std::vector<std::string>(2));
  }
}
