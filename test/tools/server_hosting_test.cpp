// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Workers that train several tables against rubato-server in a process of its own.
#ifdef RUBATO_SERVER_PROGRAM
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "process/children.hpp"
#include "process/training.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/core/error.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/tcp.hpp"

using namespace rubato;

namespace {

constexpr std::uint32_t workers = 2;
constexpr std::uint32_t servers = 2;
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
sparse<float> embedding() { return {.width = 5}; }

/// Two processes of `rubato-server`, of which the first coordinates.
class hosts {
 public:
  explicit hosts(test::words const& about_tables) {
    for (std::uint32_t rank = 0; rank < servers; ++rank) {
      auto& fresh = *children_.emplace_back(
          std::make_unique<test::child>(scratch_.path() / ("server-" + std::to_string(rank)),
                                        command(rank, about_tables), test::variables{}));
      bool const listens = fresh.prints("listening on ");
      INFO(fresh.errors());
      REQUIRE(listens);
    }
  }

  [[nodiscard]] tcp worker(std::uint32_t rank) const {
    return {.place = {.rank = rank,
                      .workers = workers,
                      .servers = servers,
                      .coordinator = place(),
                      .silence = std::chrono::seconds(30)}};
  }

  /// That they end with the run, and well.
  void check_end() {
    for (auto const& c : children_) {
      int const code = c->wait();
      INFO(c->errors());
      CHECK(code == 0);
    }
  }

 private:
  [[nodiscard]] test::words command(std::uint32_t rank, test::words const& about_tables) const {
    test::words all{RUBATO_SERVER_PROGRAM};
    all.insert(all.end(), {"--rank", std::to_string(rank), "--workers", std::to_string(workers)});
    all.insert(all.end(), {"--servers", std::to_string(servers), "--silence", "30"});
    all.insert(all.end(), {"--coordinator", place().text()});
    if (rank == 0) all.emplace_back("--with-coordinator");
    all.insert(all.end(), about_tables.begin(), about_tables.end());
    return all;
  }

  [[nodiscard]] net::address place() const {
    net::address at;
    at.path = (scratch_.path() / "coordinator").string();
    return at;
  }

  test::scratch scratch_;
  std::vector<std::unique_ptr<test::child>> children_;
};

/// Reads and pushes a few rows, which depend on the worker and its clock; all numbers do on the
/// parameters.
template <std::size_t I, class Worker>
void train_some_rows(Worker& w, std::size_t elements) {
  auto const at = static_cast<std::uint64_t>(w.clock().value());
  std::vector<std::uint64_t> const keys{(at * 7) % rows, (at * 7 + 1 + w.rank()) % rows};
  std::vector<float> x(keys.size() * elements);
  w[table<I>].pull(keys, x);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = 0.3f * static_cast<float>(i + w.rank() + I + 1) - 0.1f * x[i];
  w[table<I>].push(keys, x);
}

std::string text_of(std::vector<float> const& whole) { return test::hash_of(whole); }
std::string text_of(sparse_snapshot<float> const& touched) {
  return test::listed(touched.keys) + ": " + test::hash_of(touched.values);
}

/// What the tables have come to, in words.
template <class Transport, class Protocol, class... Tables>
std::string train(Transport transport, Protocol p, Tables... tables) {
  cluster c{std::move(transport), p, tables...};
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    c.run([&](auto& w) {
      for (int clock = 0; clock < 20; ++clock) {
        (train_some_rows<I>(w, tables.width), ...);
        w.step();
      }
    });
    return ((text_of(c.template parameters<I>()) + "\n") + ...);
  }
  (std::index_sequence_for<Tables...>{});
}

/// What each worker process has come to.
template <class Protocol, class... Tables>
std::vector<std::string> train_at(hosts const& there, Protocol p, Tables... tables) {
  std::vector<std::string> results(workers);
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    threads.emplace_back([&, rank] {
      try {
        results[rank] = train(there.worker(rank), p, tables...);
      } catch (std::exception const& e) {
        results[rank] = e.what();
      }
    });
  threads.clear();
  return results;
}

template <class... Tables>
void check_same(test::words about_tables, Tables... tables) {
  about_tables.insert(about_tables.end(), {"--protocol", "bsp"});
  hosts there(about_tables);
  auto const expected = train(in_process{.workers = workers, .servers = servers}, bsp{}, tables...);
  for (auto const& result : train_at(there, bsp{}, tables...)) CHECK(result == expected);
  there.check_end();
}

}  // namespace

TEST_CASE("BSP with tables that rubato-server hosts is the in-process run bit for bit",
          "[process]") {
  SECTION("dense and sparse") {
    check_same({"--storage", "dense,sparse", "--rows", "60,0", "--width", "3,5"}, weights(),
               embedding());
  }
  SECTION("sparse and dense") {
    check_same({"--storage", "sparse,dense", "--rows", "0,60", "--width", "5,3"}, embedding(),
               weights());
  }
  SECTION("dense and dense") { check_same({"--rows", "60", "--width", "3,1"}, weights(), biases()); }
  SECTION("three dense ones") {
    check_same({"--rows", "60", "--width", "3,1,1"}, weights(), biases(), biases());
  }
  SECTION("one alone") { check_same({"--rows", "60", "--width", "3"}, weights()); }
}

TEST_CASE("rubato-server hosts several tables that keep versions", "[process]") {
  hosts there({"--protocol", "dyn_sgd", "--storage", "multi_version,multi_version_sparse", "--rows",
               "60,0", "--width", "3,5"});
  auto const results =
      train_at(there, dyn_sgd{}, multi_version{weights()}, multi_version{embedding()});
  CHECK(results[0].find(": ") != std::string::npos);
  CHECK(results[0] == results[1]);
  there.check_end();
}

TEST_CASE("a program that has the tables in another order than rubato-server is refused",
          "[process]") {
  hosts there({"--protocol", "bsp", "--rows", "60", "--width", "3,1"});
  for (auto const& result : train_at(there, bsp{}, biases(), weights())) {
    CAPTURE(result);
    auto const expected = result.find("; expected ");
    REQUIRE(expected != std::string::npos);
    CHECK(result.find("table 0: dense float, 60 rows of width 1") < expected);
    CHECK(result.find("table 1: dense float, 60 rows of width 3") < expected);
    CHECK(result.find("table 0: dense float, 60 rows of width 3", expected) != std::string::npos);
    CHECK(result.find("table 1: dense float, 60 rows of width 1", expected) != std::string::npos);
  }
}
#endif
