// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Workers that train several tables against rubato-server in a process of its own.
#ifdef RUBATO_SERVER_PROGRAM
#include <catch2/catch.hpp>

#include <concepts>
#include <cstdint>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "process/children.hpp"
#include "process/training.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/tcp.hpp"
#include "tools/server_processes.hpp"

using namespace rubato;

namespace {

constexpr std::uint32_t server_count = 2;
constexpr std::uint64_t rows = 60;
constexpr std::size_t width = 3;

std::vector<float> const& first_values() {
  static std::vector<float> const all = [] {
    std::vector<float> x(rows * width);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.1f * static_cast<float>(i % 13);
    return x;
  }();
  return all;
}

dense<float> weights() { return {.rows = rows, .width = width, .init = first_values()}; }
dense<float> biases() { return {.rows = rows}; }
dense<float> pairs() { return {.rows = rows, .width = 2}; }
sparse<float> embedding() { return {.width = 5}; }

dense<std::int32_t, sum> tallies() { return {.rows = rows, .width = 2}; }
sparse<std::int64_t, sum> counts() { return {.width = 4}; }

/// What a worker adds to the `i`th of the numbers that it reads, which were these.
template <class T>
T added(T x, std::size_t i, std::uint32_t rank, std::size_t elements) {
  auto const step = static_cast<T>(i + rank + elements);
  if constexpr (std::integral<T>) return static_cast<T>(step - x / 3);
  else return T{0.3f} * step - T{0.1f} * x;
}

/// Reads and pushes a few rows, which depend on the worker and its clock; all numbers do on the
/// parameters.
template <std::size_t I, class T, class Worker>
void train_some_rows(Worker& w, std::size_t elements) {
  auto const at = static_cast<std::uint64_t>(w.clock().value());
  std::vector<std::uint64_t> const keys{(at * 7) % rows, (at * 7 + 1 + w.rank()) % rows};
  std::vector<T> x(keys.size() * elements);
  w[table<I>].pull(keys, x);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = added(x[i], i, w.rank(), elements);
  w[table<I>].push(keys, x);
}

template <class T>
std::string text_of(std::vector<T> const& whole) {
  if constexpr (std::integral<T>) return test::listed(whole);
  else return test::hash_of(whole);
}
template <class T>
std::string text_of(sparse_snapshot<T> const& touched) {
  return test::listed(touched.keys) + ": " + text_of(touched.values);
}

/// What each table has come to, in words.
template <class Transport, class Protocol, class... Tables>
test::words train(Transport transport, Protocol p, Tables... tables) {
  cluster c{std::move(transport), p, tables...};
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    c.run([&](auto& w) {
      for (int clock = 0; clock < 20; ++clock) {
        (train_some_rows<I, typename Tables::value_type>(w, tables.width), ...);
        w.step();
      }
    });
    return test::words{text_of(c.template parameters<I>())...};
  }
  (std::index_sequence_for<Tables...>{});
}

/// What each worker process has come to, or what went wrong.
template <class Protocol, class... Tables>
std::vector<test::words> train_at(test::server_processes const& there, Protocol p,
                                  Tables... tables) {
  std::vector<test::words> results(there.workers());
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < there.workers(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        results[rank] = train(there.worker(rank), p, tables...);
      } catch (std::exception const& e) {
        results[rank] = {e.what()};
      }
    });
  threads.clear();
  return results;
}

/// What a table comes to under BSP in one process. The others of a cluster make no difference to it.
template <class Table>
std::string alone(std::uint32_t workers, Table const& t) {
  return train(in_process{.workers = workers, .servers = server_count}, bsp{}, t).front();
}

test::server_plan plan_of(std::uint32_t workers, test::words const& protocol,
                          test::words const& tables) {
  return {.workers = workers, .servers = server_count, .protocol = protocol, .tables = tables};
}

template <class... Tables>
void check_same(test::words const& about_tables, Tables... tables) {
  test::server_processes there(plan_of(2, {"--protocol", "bsp"}, about_tables));
  test::words const expected{alone(2, tables)...};
  for (auto const& result : train_at(there, bsp{}, tables...)) CHECK(result == expected);
  there.check_end();
}

/// What as many workers come to with tables of both kinds that keep versions.
std::vector<test::words> train_with_versions(std::uint32_t workers) {
  test::server_processes there(plan_of(
      workers, {"--protocol", "dyn_sgd"},
      {"--storage", "multi_version,multi_version_sparse", "--rows", "60,0", "--width", "3,5"}));
  auto results = train_at(there, dyn_sgd{}, multi_version{weights()}, multi_version{embedding()});
  there.check_end();
  return results;
}

}  // namespace

TEST_CASE("BSP with tables that rubato-server hosts is the in-process run bit for bit",
          "[process]") {
  SECTION("sparse and dense") {
    check_same({"--storage", "sparse,dense", "--rows", "0,60", "--width", "5,3"}, embedding(),
               weights());
  }
  SECTION("three dense ones") {
    check_same({"--rows", "60", "--width", "3,1,2"}, weights(), biases(), pairs());
  }
  SECTION("one sparse among three") {
    check_same({"--storage", "dense,sparse,dense", "--rows", "60,0,60", "--width", "3,5,1"}, weights(),
               embedding(), biases());
  }
  SECTION("integers beside floats, each with its own merge") {
    check_same({"--storage", "dense,dense,sparse", "--type", "float,int32,int64", "--rows", "60,60,0",
                "--width", "3,2,4", "--merge", "protocol,sum,sum"},
               weights(), tallies(), counts());
  }
}

TEST_CASE("rubato-server hosts dense and sparse tables that keep versions", "[process]") {
  // A worker alone is never late, so that DynSGD is BSP.
  auto const one = train_with_versions(1);
  CHECK(one[0] == test::words{alone(1, weights()), alone(1, embedding())});
  auto const two = train_with_versions(2);
  REQUIRE(two[0].size() == 2);
  CHECK(two[0] == two[1]);
}

TEST_CASE("rubato-server counts exactly beside tables that keep versions", "[process]") {
  test::server_processes there(
      plan_of(2, {"--protocol", "dyn_sgd"},
              {"--storage", "multi_version,dense", "--type", "float,int64", "--rows", "60,3", "--merge",
               "protocol,sum"}));
  constexpr std::int64_t clocks = 20;
  std::vector<std::vector<std::int64_t>> counted(there.workers());
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < there.workers(); ++rank)
    threads.emplace_back([&, rank] {
      cluster c{there.worker(rank), dyn_sgd{}, multi_version{biases()}, dense<std::int64_t, sum>{.rows = 3}};
      c.run([&](auto& w) {
        for (std::int64_t i = 0; i < clocks; ++i) {
          w[table<0>].push(std::vector<float>(rows, 1));
          w[table<1>].push(std::vector<std::int64_t>{1, 10, (std::int64_t{1} << 40) + w.rank()});
          w.step();
        }
      });
      counted[rank] = c.template parameters<1>();
    });
  threads.clear();
  for (auto const& all : counted)
    CHECK(all == std::vector<std::int64_t>{2 * clocks, 20 * clocks, clocks * ((std::int64_t{1} << 41) + 1)});
  there.check_end();
}

TEST_CASE("a program that has the tables in another order than rubato-server is refused",
          "[process]") {
  test::server_processes there(
      plan_of(2, {"--protocol", "bsp"}, {"--rows", "60", "--width", "3,1,2"}));
  for (auto const& result : train_at(there, bsp{}, biases(), weights(), pairs())) {
    CAPTURE(result);
    REQUIRE(result.size() == 1);
    auto const expected = result[0].find("; expected ");
    REQUIRE(expected != std::string::npos);
    auto const says = [&](std::string const& what, std::size_t from) {
      return result[0].find(what + ", placement", from);
    };
    CHECK(says("table 0: dense float, 60 rows of width 1", 0) < expected);
    CHECK(says("table 1: dense float, 60 rows of width 3", 0) < expected);
    CHECK(says("table 0: dense float, 60 rows of width 3", expected) != std::string::npos);
    CHECK(says("table 1: dense float, 60 rows of width 1", expected) != std::string::npos);
  }
}
#endif
