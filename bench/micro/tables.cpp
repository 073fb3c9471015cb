// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A clock of a worker whose parameters are in many tables, beside the same parameters in one: all pulled, all pushed,
// and a commit.

#include <fmt/core.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "bench/micro/raw_sockets.hpp"
#include "bench/micro/table.hpp"
#include "bench/micro/tcp_process.hpp"
#include "bench/micro/tcp_server.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::bench {
namespace {

constexpr std::uint64_t floats_in_tables = 16 * 1024;
constexpr std::size_t clocks_in_a_round = 32;  // in an iteration

enum class pulled { one_by_one, together };

template <class Worker>
void train_on_tables(benchmark::State& state, Worker& worker, pulled how) {
  using clock = std::chrono::steady_clock;
  std::size_t const tables = worker.tables();
  std::vector<std::vector<float>> w(tables, std::vector<float>(floats_in_tables / tables));
  std::vector<float> const u(floats_in_tables / tables, 1e-3F);
  std::vector<pull_wish> wishes;
  for (std::size_t i = 0; i < tables; ++i) wishes.push_back(worker.template dense<float>(i).into(w[i]));
  auto const one_clock = [&] {
    if (how == pulled::together) worker.pull_together(wishes);
    else
      for (std::size_t i = 0; i < tables; ++i) worker.template dense<float>(i).pull(w[i]);
    for (std::size_t i = 0; i < tables; ++i) worker.template dense<float>(i).push(u);
    worker.step();
  };
  for (std::size_t i = 0; i < clocks_in_a_round; ++i) one_clock();  // memory is fresh
  for (auto _ : state) {
    auto const start = clock::now();
    for (std::size_t i = 0; i < clocks_in_a_round; ++i) one_clock();
    double const seconds = std::chrono::duration<double>(clock::now() - start).count();
    state.SetIterationTime(seconds / static_cast<double>(clocks_in_a_round));
  }
}

void bench_tables_in_process(benchmark::State& state, std::uint32_t tables, pulled how) {
  cluster c{in_process{}, bsp{}, list_of_tables(tables, floats_in_tables)};
  c.run([&](auto& worker) { train_on_tables(state, worker, how); });
}

void bench_tables_over_tcp(benchmark::State& state, placement const& where, std::uint32_t tables, pulled how) {
  try {
    scratch_directory const scratch;
    served_table const t{.protocol = std::string(bsp::name()),
                         .rows = floats_in_tables,
                         .coordinator = scratch.path() / "coordinator",
                         .core = where.there,
                         .tables = tables};
    pinned const here(where.here);
    other_process server(t.words());
    {
      cluster c{tcp{.place = t.place(net::role::worker)}, bsp{}, list_of_tables(tables, floats_in_tables)};
      c.run([&](auto& worker) { train_on_tables(state, worker, how); });
    }
    server.wait();
  } catch (std::exception const& e) {
    state.SkipWithError(e.what());
  }
}

/// One table, and sixteen beside it in two ways. `measure(state, tables, how)`.
template <class F>
void add_rows_of_tables(std::vector<micro_row>& rows, std::string const& prefix, std::string const& suffix,
                        std::string const& aim, F measure) {
  auto const add = [&](std::string const& what, std::string const& baseline, std::string const& bound,
                       std::uint32_t tables, pulled how) {
    rows.push_back({prefix + what + suffix, baseline, 0, "", bound});
    std::string const name = rows.back().name;
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { measure(s, tables, how); })->UseManualTime();
    return name;
  };
  std::string const one = add("clock of 16K floats in 1 table", "", "", 1, pulled::together);
  add("clock of 16K floats in 16 tables, together", one, aim, 16, pulled::together);
  add("clock of 16K floats in 16 tables, one by one", one, "", 16, pulled::one_by_one);
}

}  // namespace

std::vector<micro_row> register_tables() {
  std::vector<micro_row> rows;
  add_rows_of_tables(rows, "", "", "", bench_tables_in_process);  // there are no round trips to save: without an aim
  for (placement const& where : placements())
    add_rows_of_tables(rows, "tcp ", ", " + where.name, "<= 1.5",
                       [where](benchmark::State& state, std::uint32_t tables, pulled how) {
                         bench_tables_over_tcp(state, where, tables, how);
                       });
  return rows;
}

}  // namespace rubato::bench
