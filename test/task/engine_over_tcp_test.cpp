// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/task/engine.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/tcp.hpp>

#include "task/counting.hpp"
#include "task/processes.hpp"

namespace rb = rubato;
using Catch::Contains;

namespace {

using rb::test::counting;
using rb::test::counts;
using rb::test::processes;

}  // namespace

TEST_CASE("engine: stages over TCP have degrees up to the sum of the processes' threads", "[threads]") {
  std::vector<std::int64_t> ends(2);
  std::vector<rb::task_report> reports(2);
  auto const said = processes("stages").run([&](rb::tcp const& where, int worker) {
    rb::engine engine{where};
    rb::task t{counts{.rows = 1}, counts{.rows = 2}};
    auto const all = t.stage({.workers = 4, .iterations = 5}, counting{});
    auto const one = t.stage({.workers = 1, .protocol = rb::ssp{.staleness = 1}, .iterations = 3}, counting{});
    auto const three = t.stage(
        {.workers = 3, .protocol = with(rb::ssp{}, rb::stable_cut{}), .iterations = 4, .where = {1, 2}}, counting{});
    auto const anew = t.stage({.workers = 2, .iterations = 7, .cleared = {0}}, counting{});
    auto const searched = t.stage({.workers = rb::automatic, .iterations = 40}, counting{});
    t.repeat(2, all, one, three, anew, searched);
    rb::task_report const r = engine.submit(t).wait();
    if (worker < 0) return;
    ends[static_cast<std::size_t>(worker)] = t.parameters()[0];
    reports[static_cast<std::size_t>(worker)] = r;
  });
  CHECK(said == std::vector<std::string>(2));
  REQUIRE_FALSE(reports[0].stages.empty());
  std::int64_t expected = 0;
  for (auto const& s : reports[0].stages)  // since the last time that the table was cleared
    expected = (s.stage == 3 ? 0 : expected) + s.iterations * static_cast<std::int64_t>(rb::workers_of(s.where));
  CHECK(ends == std::vector<std::int64_t>{expected, expected});
  // Both processes have decided the same.
  REQUIRE(reports[0].stages.size() == reports[1].stages.size());
  for (std::size_t i = 0; i < reports[0].stages.size(); ++i) {
    CHECK(reports[0].stages[i].where == reports[1].stages[i].where);
    CHECK(reports[0].stages[i].iterations == reports[1].stages[i].iterations);
    CHECK(reports[0].stages[i].run.updates == reports[1].stages[i].run.updates);
  }
  CHECK(reports[0].stages[1].where == rb::placement{1, 0});
  CHECK(reports[0].stages[2].where == rb::placement{1, 2});
}

TEST_CASE("engine: over TCP servers copy tables and apply functions where a stage says so", "[threads]") {
  std::vector<std::vector<std::int64_t>> ends(2);
  auto const said = processes("changes").run([&](rb::tcp const& where, int worker) {
    rb::engine engine{where};
    rb::task t{counts{.rows = 1}, counts{.rows = 1}};
    auto const add = t.stage({.workers = 2, .iterations = 5}, counting{});
    auto const twice = [](std::span<std::int64_t> v) {
      for (auto& x : v) x *= 2;
    };
    auto const more = t.stage({.workers = 3,
                               .iterations = 4,
                               .copied = {{.to = 1, .from = 0}},
                               .applied = {rb::at_servers<std::int64_t>(1, twice)}},
                              counting{});
    t.repeat(2, add, more);
    engine.submit(t).wait();
    if (worker < 0) return;
    auto end = t.parameters<0>();
    auto const copy = t.parameters<1>();
    end.insert(end.end(), copy.begin(), copy.end());
    ends[static_cast<std::size_t>(worker)] = end;
  });
  CHECK(said == std::vector<std::string>(2));
  CHECK(ends[0][0] == 2 * (2 * 5 + 3 * 4));
  CHECK(ends[0][1] == 2 * (2 * (2 * 5) + 3 * 4));
  CHECK(ends[1] == ends[0]);
}

TEST_CASE("engine: processes whose tasks differ do not train together", "[threads]") {
  auto const said = processes("strays").run([&](rb::tcp const& where, int worker) {
    rb::engine engine{where};
    rb::task t{counts{.rows = 1}};
    auto const a = t.stage({.workers = 4, .iterations = 2}, counting{});
    auto const b = t.stage({.workers = 4, .iterations = 2}, counting{});
    t.run(a);
    t.run(worker == 1 ? a : b);
    (void)engine.submit(t).wait();
  });
  CHECK_THAT(said[0] + said[1], Contains("it is at another stage than the others: its stage is "));
}

TEST_CASE("engine: processes that differ in how much a stage has to do do not train together", "[threads]") {
  bool const local = GENERATE(false, true);
  CAPTURE(local);
  auto const said = processes("more to do").run([&](rb::tcp const& where, int worker) {
    rb::engine engine{where};
    rb::task t{counts{.rows = 1}};
    rb::stage_options o{.workers = 2, .iterations = worker == 1 ? 3 : 2};
    if (local) o.local = rb::single_machine{};
    t.run(t.stage(o, counting{}));
    (void)engine.submit(t).wait();
  });
  CHECK_THAT(said[0] + said[1], Contains("its number of iterations is "));
}

TEST_CASE("engine: over TCP stages after a process has left use the nodes that are left", "[threads]") {
  std::int64_t end = 0;
  rb::task_report report;
  auto const said = processes("left", rb::net::on_loss::go_on).run([&](rb::tcp const& where, int worker) {
    rb::engine engine{where};
    rb::task t{counts{.rows = 1}};
    auto const all = t.stage({.workers = 4, .iterations = 5}, counting{});
    auto const two = t.stage({.workers = 2, .iterations = 3}, counting{});  // on the other node each time
    t.run(all);
    if (worker != 1) t.repeat(2, two, two);
    rb::task_report const r = engine.submit(t).wait();
    if (worker != 0) return;
    end = t.parameters()[0];
    report = r;
  });
  CHECK(said == std::vector<std::string>(2));
  CHECK(end == 4 * 5 + 4 * 2 * 3);
  REQUIRE(report.stages.size() >= 5);
  rb::stage_report const* put_off = nullptr;
  for (auto const& s : report.stages)
    if (s.lost) put_off = &s;
  if (put_off != nullptr) CHECK(put_off->run.completed == rb::completion::not_begun);
}

TEST_CASE("engine: over TCP a stage that has no room without a process that has left says so", "[threads]") {
  auto const said = processes("no-room", rb::net::on_loss::go_on).run([&](rb::tcp const& where, int worker) {
    rb::engine engine{where};
    rb::task t{counts{.rows = 1}};
    auto const all = t.stage({.workers = 4, .iterations = 5}, counting{});
    t.run(all);
    if (worker != 1) t.run(all);
    (void)engine.submit(t).wait();
  });
  CHECK(said[1].empty());
  CHECK_THAT(said[0], Contains("no room for 4 workers, all nodes together have 2; others have been lost"));
}

TEST_CASE("engine: over TCP it has one task, and says so") {
  rb::net::deployment place;
  place.coordinator.path = "/tmp/rubato-task-one-" + std::to_string(::getpid());
  place.as = rb::net::role::coordinator;
  rb::engine engine{rb::tcp{.place = place}};
  rb::task t{counts{.rows = 1}};
  t.run(t.stage({}, counting{}));
  rb::task second{counts{.rows = 1}};
  second.run(second.stage({}, counting{}));
  (void)engine.submit(t);
  CHECK_THROWS_WITH(engine.submit(second), Contains("expected no second one"));
}
