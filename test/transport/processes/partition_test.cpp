// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Whole runs over Unix-domain sockets, with all roles in threads of this process: tables on some of the
// servers.
#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/error.hpp>
#include <rubato/partition/key_ranges.hpp>
#include <rubato/partition/on_servers.hpp>
#include <rubato/partition/range.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/transport/tcp.hpp>

#include "transport/processes/serving.hpp"

using namespace rubato;
using namespace rubato::test;

namespace {

template <class P>
using dense_on = dense<std::int64_t, sum, P>;
template <class P>
using sparse_on = sparse<std::int64_t, sum, P>;

/// Each process's worker sees its own pushes and at most all of the others'; in the end all are there.
void check_trains(rules const& protocol, std::uint32_t threads) {
  constexpr std::size_t rows = 300;
  constexpr std::int64_t clocks = 20;
  net::deployment const shape{.workers = processes, .servers = 4};
  dense_on<on_servers<>> const some{.rows = rows, .partition = on_servers{{1, 3}}};
  sparse_on<key_ranges> const open{.partition = key_ranges({0, 0, 1000, 1000})};
  counting const beside{.rows = rows};
  serving const run(shape, protocol, {describe(some), describe(open), describe(beside)});
  in_processes(processes, [&](std::uint32_t rank) {
    cluster c{run.process(rank, threads), protocol, some, open, beside};
    std::vector<std::uint64_t> const keys{1, 999, 1000, 1'000'000};
    c.run([&](auto& w) {
      std::vector<std::int64_t> all(rows), few(keys.size());
      for (std::int64_t clock = 0; clock < clocks; ++clock) {
        for (int again = 0; again < 2; ++again) {
          w.pull(all);
          for (std::int64_t const x : all)
            expect(clock <= x && x <= clocks * processes * threads, "a push is missing or there twice");
        }
        w[table<1>].pull(keys, few);
        for (std::int64_t const x : few) expect(clock <= x, "a push to the open table is missing");
        w.push(ones(rows));
        w[table<1>].push(keys, ones(keys.size()));
        w[table<2>].push(ones(rows));
        w.step();
      }
    });
    std::int64_t const expected = clocks * processes * threads;
    expect(are_all(c.parameters(), expected), "the table on some servers is not whole");
    auto const& touched = c.template parameters<1>();
    expect(touched.keys == keys && are_all(touched.values, expected), "the open table is not whole");
    expect(are_all(c.template parameters<2>(), expected), "the table on all servers is not whole");
  });
}

/// A worker process that says so of its table is refused, and one that agrees with the servers trains.
template <class Table>
void check_refused(Table const& agreed, Table const& other) {
  silence_in_log const quiet;
  net::deployment const shape{.workers = 1, .servers = 3};
  serving const run(shape, asp{}, {describe(agreed)});
  errc why{};
  try {
    cluster{run.process(0, 1), asp{}, other};
  } catch (error const& e) {
    why = e.code();
  }
  CHECK(why == errc::refused);
  cluster c{run.process(0, 1), asp{}, agreed};
  CHECK_NOTHROW(c.run([](auto& w) { w.step(); }));
}

template <class P>
void check_refused_both(P const& agreed, P const& other) {
  check_refused(dense_on<P>{.rows = 10'000, .partition = agreed},
                dense_on<P>{.rows = 10'000, .partition = other});
  check_refused(sparse_on<P>{.partition = agreed}, sparse_on<P>{.partition = other});
}

}  // namespace

TEST_CASE("tcp: tables on some of the servers train as others do", "[tcp]") {
  std::uint32_t const threads = GENERATE(1U, 2U);
  check_trains(with(bsp{}, sum{}), threads);
  check_trains(ssp{.staleness = 2}, threads);
  check_trains(asp{}, threads);
}

TEST_CASE("tcp: a process that has a table on other servers is refused", "[tcp]") {
  check_refused_both(on_servers{{0, 1}}, on_servers{{0, 2}});
  check_refused_both(on_servers{{0, 1}}, on_servers{{1, 0}});
  // They differ for late keys only.
  check_refused_both(on_servers({0, 1}, range{}), on_servers({0, 2}, range{}));
  check_refused_both(key_ranges({0, 5000, 6000}), key_ranges({0, 5000, 6001}));
}

TEST_CASE("tcp: a process whose table has more rows than anybody can loop over is refused, too", "[tcp]") {
  using table = dense_on<key_ranges>;
  check_refused(table{.rows = 10'000, .partition = key_ranges({0, 5000, 6000})},
                table{.rows = std::uint64_t{1} << 36, .partition = key_ranges({0, 5000, 6000})});
}
