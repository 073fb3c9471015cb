// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Run by mpirun, as six ranks: a coordinator, two servers and three workers. Those that are hidden are run by ranks of
// their own.
#include <rubato/transport/mpi.hpp>
//
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/net/log.hpp>
#include <rubato/net/mpi_network.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/in_process.hpp>

#include "process/training.hpp"

using namespace rubato;
using Catch::Contains;

namespace {

mpi two_servers() { return {.place = {.servers = 2}}; }

struct outcome {
  std::string counts, keys, keyed, weights;
  bool operator==(outcome const&) const = default;
};

template <class Cluster>
outcome outcome_of(Cluster& c) {
  auto const& keyed = c.template parameters<1>();
  return {test::listed(c.template parameters<0>()), test::listed(keyed.keys), test::listed(keyed.values),
          test::hash_of(c.template parameters<2>())};
}

/// What a run of the job comes to; nothing in a process that has no workers.
template <class Transport, class P>
std::optional<outcome> outcome_over(Transport const& transport, P const& p, test::job const& j, int runs = 1) {
  test::initial_values const first(j);
  auto c = test::make_cluster(transport, p, j, first);
  for (; runs != 0; --runs) c.run([&](auto& w) { (void)test::trainee(w, j).run([](std::int64_t) {}); });
  if (!c.runtime().has_workers()) return std::nullopt;
  return outcome_of(c);
}

/// What the body of one worker does in the middle of a run that without it would not end.
template <class F>
void run_until_one(F what) {
  cluster c{two_servers(), ssp{.staleness = 2}, dense<std::int64_t, sum>{.rows = 10}};
  c.run([&](auto& w) {
    std::vector<std::int64_t> const one(10, 1);
    std::vector<std::int64_t> seen(10);
    for (;; w.step()) {
      if (w.rank() == 1 && w.clock().value() == 5) what(c);
      w.pull(seen);
      w.push(one);
    }
  });
}

}  // namespace

TEST_CASE("mpi: a rank's role follows from its number", "[mpi]") {
  auto const [rank, count] = net::this_mpi_rank();
  REQUIRE(count == 6);
  net::deployment const here = two_servers().here();
  CHECK(here.as == (rank == 0 ? net::role::coordinator : rank < 3 ? net::role::server : net::role::worker));
  CHECK(here.rank == (rank == 0 ? 0 : rank < 3 ? rank - 1 : rank - 3));
  CHECK(here.workers == 3);
  CHECK(two_servers().nodes() == std::vector<std::uint32_t>(3, 1));
}

TEST_CASE("mpi: the environment says how many servers there are, and nothing of places", "[mpi]") {
  ::setenv("RUBATO_SERVERS", "3", 1);
  ::setenv("RUBATO_ROLE", "server", 1);
  ::setenv("MASTER_ADDR", "elsewhere", 1);
  ::setenv("RANK", "77", 1);
  mpi const m = mpi::from_environment(4);
  for (char const* name : {"RUBATO_SERVERS", "RUBATO_ROLE", "MASTER_ADDR", "RANK"}) ::unsetenv(name);
  CHECK(m.threads == 4);
  CHECK(m.place.servers == 3);
  CHECK(m.place.workers == 2);
  CHECK(m.place.coordinator.text() == "rank-0:1");
  CHECK(mpi::from_environment().place.servers == 1);
}

TEST_CASE("mpi: what cannot be meant is refused before anything is started", "[mpi]") {
  auto const open = [](mpi const& m) { cluster{m, ssp{}, dense<float>{.rows = 1}}; };
  CHECK_THROWS_WITH(open({.place = {.servers = 5}}), Contains("has started 6 processes, expected at least 7"));
  CHECK_THROWS_WITH(open({.threads = 0}), Contains("threads must be at least 1"));
  CHECK_THROWS_AS(open({.place = {.silence = std::chrono::milliseconds(0)}}), option_error);
  CHECK_THROWS_WITH(open({.place = {.keys = {.token = "secret"}}}), Contains("expected no token"));
}

TEST_CASE("mpi: BSP is the in-process run bit for bit, run after run", "[mpi][bsp]") {
  test::job const j;
  auto const expected = outcome_over(in_process{.workers = 3, .servers = 2}, bsp{}, j, 2);
  auto const found = outcome_over(two_servers(), bsp{}, j, 2);
  if (found) CHECK((*found == *expected));
}

TEST_CASE("mpi: every protocol counts every step once, with several threads or one in the background", "[mpi]") {
  bool const background = GENERATE(false, true);
  rules const p = GENERATE(values<rules>({bsp{}, ssp{.staleness = 2}, asp{}}));
  test::job const j{.clocks = 10, .columns = 6, .ballast = 100'000};
  mpi m = two_servers();
  m.background = background;
  m.threads = background ? 1 : 2;
  test::initial_values const first(j);
  auto c = cluster{m, p, test::counts_table{.rows = j.rows, .width = j.columns},
                   test::keyed_counts_table{.width = j.columns, .init_keys = first.keys(), .init = first.row()},
                   dense<float>{.rows = j.weights, .init = first.weights()}, test::ballast_table{.rows = j.ballast}};
  std::int64_t heavy = 0;
  std::int64_t const workers = 3 * m.threads;
  c.run([&](auto& w) {
    test::trainee t(w, j);
    t.run([](std::int64_t) {});
    if (w.rank() == 0) heavy = t.heavy_pushes();
  });
  if (!c.runtime().has_workers()) return;
  auto const totals = test::column_totals(c.template parameters<0>(), j.columns);
  for (std::size_t w = 0; w < totals.size(); ++w)
    CHECK(totals[w] == (static_cast<std::int64_t>(w) < workers ? 10 * static_cast<std::int64_t>(j.rows) : 0));
  auto const keyed = test::column_totals(c.template parameters<1>().values, j.columns);
  CHECK(keyed[1] == 10);
  if (c.runtime().rank() == 0) CHECK(c.template parameters<3>().front() == heavy * workers);
}

TEST_CASE("mpi: clusters of one program follow one another", "[mpi]") {
  for (int i = 0; i < 8; ++i) {
    cluster c{two_servers(), bsp{}, dense<std::int64_t, sum>{.rows = 3}};
    c.run([&](auto& w) {
      std::vector<std::int64_t> seen(3);
      for (; w.clock().value() < i; w.step()) {
        w.pull(seen);
        w.push(std::vector<std::int64_t>{1, 2, 3});
      }
    });
    if (c.runtime().has_workers()) CHECK(c.parameters() == std::vector<std::int64_t>{3 * i, 6 * i, 9 * i});
  }
}

TEST_CASE("mpi: 64 MB are pushed and pulled whole", "[mpi]") {
  constexpr std::size_t rows = 16 * 1024 * 1024;
  cluster c{mpi{.place = {.servers = 4}}, bsp{}, dense<float, sum>{.rows = rows}};
  c.run([&](auto& w) {
    std::vector<float> x(rows);
    for (std::size_t i = 0; i < rows; ++i) x[i] = static_cast<float>(i % 1021);
    w.push(x);
    w.step();
    w.pull(x);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < rows; ++i) wrong += x[i] != static_cast<float>(i % 1021);
    CHECK(wrong == 0);
  });
}

TEST_CASE("mpi: a body that throws ends the run everywhere, with its reason", "[mpi]") {
  net::set_log([](net::log_level, std::string_view) {});
  std::string said;
  try {
    run_until_one([](auto&) { throw std::runtime_error("the disk is full"); });
  } catch (std::exception const& e) {
    said = e.what();
  }
  net::set_log({});
  if (two_servers().here().as == net::role::worker) CHECK_THAT(said, Contains("the disk is full"));
}

TEST_CASE("mpi: stop ends the run everywhere", "[mpi]") {
  CHECK_NOTHROW(run_until_one([](auto& c) { c.stop(); }));
}

// ---- by ranks of their own

TEST_CASE("mpi: a failure is the program's", "[.][mpi]") {
  run_until_one([](auto&) { throw std::runtime_error("the disk is full"); });
}
