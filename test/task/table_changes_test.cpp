// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/table_change.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <numeric>
#include <vector>

#include <rubato/partition/hash.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/storage/ordered.hpp>
#include <rubato/storage/paged.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/task/engine.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

namespace rb = rubato;
using Catch::Contains;

namespace {

using vec = std::vector<double>;

vec counting_up(std::size_t n, double from) {
  vec v(n);
  std::iota(v.begin(), v.end(), from);
  return v;
}

/// A task of two tables of 30'000 rows, some chunks on each of three servers: adds 1 to the first, copies it to the
/// second, adds 1 again, and doubles what is then there.
template <class Table>
void check_changes(auto const& transport, Table const& table) {
  constexpr std::size_t n = 30'000;
  vec const first = counting_up(n, 1), second = counting_up(n, -7);
  auto const with = [&](vec const& init) {
    Table t = table;
    t.rows = n;
    t.init = init;
    return t;
  };
  rb::engine engine{transport};
  rb::task t{with(first), with(second)};
  auto const add = [](auto& w) {
    w.push(vec(n, 1.0 / w.count()));
    w.step();
  };
  std::vector<double> seen;
  auto const look = [&](auto& w) {
    vec one(n), two(n);
    w[rb::table<0>].pull(one);
    w[rb::table<1>].pull(two);
    if (w.rank() == 0) seen = {one[0], one[n - 1], two[0], two[n - 1]};
    w.step();
  };
  t.run(t.stage({.workers = 2, .protocol = rb::bsp{}}, add));
  t.run(t.stage({.workers = 1, .copied = {{.to = 1, .from = 0}}}, add));
  t.run(t.stage({.workers = 2,
                 .applied = {rb::at_servers<double>(1, [](std::span<double> w) { for (double& x : w) x *= 2; }),
                             rb::at_servers<double>(1, [](std::span<double> w) { for (double& x : w) x += 1; })}},
                look));
  engine.submit(t).wait();
  vec one = counting_up(n, 3), two = counting_up(n, 2);
  for (double& x : two) x = 2 * x + 1;
  CHECK(t.parameters() == one);
  CHECK(t.template parameters<1>() == two);
  CHECK(seen == vec{one[0], one[n - 1], two[0], two[n - 1]});
}

using doubles = rb::dense<double, rb::sum>;

}  // namespace

TEST_CASE("table_change: a stage begins with copies and functions at the servers") {
  rb::in_process const threads{.workers = 2, .servers = 3};
  rb::simulated const virtual_time{.workers = 2, .servers = 3};
  check_changes(threads, doubles{});
  check_changes(virtual_time, doubles{});
  check_changes(virtual_time, rb::dense<double, rb::sum, rb::hash>{});
  check_changes(virtual_time, rb::paged<double, rb::sum>{{}, {.memory_limit = 20'000, .chunk_bytes = 1000}});
}

namespace {

/// Rows and values of table 1 after a stage on table 0, a copy of it, and a stage on table 0 again.
template <class Table>
auto copy_of_touched(Table const& table, rb::rules const& protocol) {
  rb::engine engine{rb::simulated{.workers = 3, .servers = 2}};
  rb::task t{table, table};
  auto const push_to = [](auto handle, std::uint64_t key, double x) {
    std::vector<std::uint64_t> const keys{key, 1000};
    vec const values{x, 1, x, 1};
    handle.push(keys, values);
  };
  t.run(t.stage({.workers = 3, .protocol = protocol}, [&](auto& w) {
    push_to(w[rb::table<0>], w.rank(), 2);
    push_to(w[rb::table<1>], 77, 5);  // of which nothing is left
    w.step();
  }));
  t.run(t.stage({.workers = 1,
                 .copied = {{.to = 1, .from = 0}},
                 .applied = {rb::at_servers<double>(1, [](std::span<double> v) { for (double& x : v) x = -x; })}},
                [&](auto& w) {
                  push_to(w[rb::table<0>], 88, 9);
                  w.step();
                }));
  engine.submit(t).wait();
  return t.template parameters<1>();
}

}  // namespace

TEST_CASE("table_change: of a sparse table the touched rows are copied, and no others are left") {
  auto const check = [](auto const& found) {
    CHECK(found.keys == std::vector<std::uint64_t>{0, 1, 2, 1000});
    CHECK(found.values == vec{-2, -1, -2, -1, -2, -1, -6, -3});
  };
  check(copy_of_touched(rb::sparse<double, rb::sum>{.width = 2}, rb::ssp{}));
  check(copy_of_touched(rb::ordered<double, rb::sum>{{.width = 2}}, rb::ssp{}));
}

TEST_CASE("table_change: versions that were alive are copied with what they count") {
  rb::engine engine{rb::simulated{.workers = 2, .servers = 2}};
  using table = rb::multi_version<rb::dense<double>>;
  rb::task t{table{{.rows = 5}}, table{{.rows = 5}}};
  t.run(t.stage({.workers = 2, .protocol = rb::dyn_sgd{.staleness = rb::staleness{3}}, .iterations = 4},
                [](auto& w, rb::iteration_range todo) {
                  vec now(5);
                  for ([[maybe_unused]] auto i : todo) {
                    w[rb::table<0>].pull(now);
                    w[rb::table<0>].push(vec(5, 1.0));
                    w.step();
                  }
                }));
  t.run(t.stage({.workers = 1, .protocol = rb::dyn_sgd{}, .copied = {{.to = 1, .from = 0}}},
                [](auto& w) { w.step(); }));
  engine.submit(t).wait();
  CHECK(t.parameters()[0] > 0);
  CHECK(t.parameters<1>() == t.parameters<0>());
}

TEST_CASE("table_change: only the first part of a stage whose degree is searched for changes tables") {
  rb::engine engine{rb::simulated{.workers = 4}};
  rb::task t{doubles{.rows = 3}, doubles{.rows = 3}};
  auto const one_more = [](std::span<double> w) {
    for (double& x : w) x += 1;
  };
  auto const search = t.stage({.workers = rb::automatic,
                               .iterations = 50,
                               .copied = {{.to = 1, .from = 0}},
                               .applied = {rb::at_servers<double>(0, one_more)}},
                              [](auto& w, rb::iteration_range todo) {
                                for ([[maybe_unused]] auto i : todo) {
                                  if (w.rank() == 0) w.push(vec(3, 1.0));
                                  w.step();
                                }
                              });
  t.repeat(2, search);
  auto const report = engine.submit(t).wait();
  CHECK(report.stages.size() > 3);
  CHECK(t.parameters() == vec(3, 102));
  CHECK(t.parameters<1>() == vec(3, 51));
}

TEST_CASE("table_change: copies go one after the other, before what begins at zero") {
  rb::engine engine{rb::simulated{}};
  rb::task t{doubles{.rows = 1}, doubles{.rows = 1}, doubles{.rows = 1}};
  t.run(t.stage({}, [](auto& w) {
    w[rb::table<0>].push(vec{4});
    w[rb::table<1>].push(vec{5});
    w.step();
  }));
  t.run(t.stage({.copied = {{.to = 2, .from = 1}, {.to = 1, .from = 0}}, .cleared = {0}}, [](auto& w) { w.step(); }));
  engine.submit(t).wait();
  CHECK(t.parameters<0>() == vec{0});
  CHECK(t.parameters<1>() == vec{4});
  CHECK(t.parameters<2>() == vec{5});
}

TEST_CASE("table_change: what cannot be meant is named before anything runs") {
  auto const refusal_of = [](rb::stage_options o) {
    rb::task t{doubles{.rows = 4}, rb::dense<float, rb::sum>{.rows = 4}, doubles{.rows = 5},
               rb::sparse<double, rb::sum>{.rows = 4},
               rb::dense<double, rb::sum, rb::hash>{.rows = 4}};
    t.run(t.stage(std::move(o), [](auto& w) { w.step(); }));
    rb::engine engine{rb::simulated{.servers = 3}};
    try {
      engine.submit(t);
    } catch (rb::option_error const& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  auto const copy = [&](std::size_t to, std::size_t from) {
    return refusal_of({.copied = {{.to = to, .from = from}}});
  };
  CHECK_THAT(copy(9, 0), Contains("no table 9 to copy to") && Contains("below 5"));
  CHECK_THAT(copy(0, 9), Contains("no table 9 to copy,"));
  CHECK_THAT(copy(0, 0), Contains("table 0") && Contains("expected another one"));
  CHECK_THAT(copy(0, 1), Contains("same element"));
  CHECK_THAT(copy(0, 2), Contains("as many rows"));
  CHECK_THAT(copy(0, 3), Contains("dense"));
  CHECK_THAT(copy(0, 4), Contains("same partition"));
  CHECK_THAT(refusal_of({.copied = {{.to = 0, .from = 2}}}), Contains("as many rows"));
  CHECK_THAT(refusal_of({.cleared = {1, 0}}), Contains("ascending"));
  CHECK_THAT(refusal_of({.applied = {rb::at_servers<float>(0, [](std::span<float>) {})}}),
             Contains("function of float") && Contains("expected double"));
  CHECK_THAT(refusal_of({.applied = {rb::at_servers<float>(7, [](std::span<float>) {})}}), Contains("no table 7"));
  CHECK_THAT(refusal_of({.applied = {{.table = 0, .element = rb::element_type::float64, .change = {}}}}),
             Contains("empty"));
  CHECK(refusal_of({.applied = {rb::at_servers<float>(1, [](std::span<float>) {})}}) == "none");
}

TEST_CASE("table_change: a table is not both copied to and cleared") {
  rb::task t{doubles{.rows = 4}, doubles{.rows = 4}};
  t.run(t.stage({.copied = {{.to = 1, .from = 0}}, .cleared = {1}}, [](auto& w) { w.step(); }));
  rb::engine engine{rb::in_process{}};
  CHECK_THROWS_WITH(engine.submit(t), Contains("copied to and cleared"));
}

TEST_CASE("table_change: what a function at a server throws ends the task") {
  rb::engine engine{rb::in_process{}};
  rb::task t{doubles{.rows = 4}};
  auto const fails = [](std::span<double>) { throw std::runtime_error("no scale"); };
  t.run(t.stage({.applied = {rb::at_servers<double>(0, fails)}}, [](auto& w) { w.step(); }));
  CHECK_THROWS_WITH(engine.submit(t).wait(), Contains("no scale"));
}
