// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// An average of as many floats as there are parameters: by 2 workers and a server, each a process, under BSP. Over
// loopback TCP twice the bytes pass that two peers exchange; as is picked on one machine, they share memory. This
// process is the first worker.
#include "bench/micro/tcp_averages.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "bench/micro/table.hpp"
#include "bench/micro/tcp_process.hpp"
#include "bench/micro/tcp_server.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::bench {
namespace {

using averages_clock = std::chrono::steady_clock;

constexpr std::uint32_t averaging = 2;  // workers

/// As many as take some tenths of a second.
std::int64_t rounds_of(std::uint64_t floats) {
  return static_cast<std::int64_t>(std::clamp<std::uint64_t>((std::uint64_t{64} << 20) / floats, 8, 200));
}

/// Returns the seconds of one, without the first ones, in which memory is fresh.
template <class F>
double seconds_of_a_round(std::uint64_t floats, F round) {
  constexpr int unmeasured = 3;
  for (int i = 0; i < unmeasured; ++i) round();
  std::int64_t const rounds = rounds_of(floats);
  auto const start = averages_clock::now();
  for (std::int64_t i = 0; i < rounds; ++i) round();
  return std::chrono::duration<double>(averages_clock::now() - start).count() / static_cast<double>(rounds);
}

// ---- by a server

double run_worker(served_table const& t) {
  double seconds = 0;
  cluster c{tcp{.place = t.place(net::role::worker)}, bsp{}, dense<float>{.rows = t.rows}};
  c.run([&](auto& worker) {
    std::vector<float> const u(t.rows, 1e-3F);
    std::vector<float> w(t.rows);
    seconds = seconds_of_a_round(t.rows, [&] {
      worker.push(u);
      worker.commit();
      worker.pull(w);
    });
  });
  return seconds;
}

void bench_average(benchmark::State& state, std::uint64_t floats, bool over_tcp) {
  try {
    for (auto _ : state) {
      scratch_directory const meet;
      served_table const t{.protocol = std::string(bsp::name()),
                           .rows = floats,
                           .width = 1,
                           .coordinator = meet.path() / "coordinator",
                           .workers = averaging,
                           .over_tcp = over_tcp};
      other_process server(t.words());
      std::vector<std::string> other_worker = t.words();
      other_worker.front() = "average";
      other_process other(other_worker);
      state.SetIterationTime(run_worker(t));
      (void)other.wait();
      (void)server.wait();
    }
  } catch (std::exception const& e) {
    state.SkipWithError(e.what());
  }
}

}  // namespace

void serve_average(std::vector<std::string> const& words) { (void)run_worker(served_table::parse(words)); }

std::vector<micro_row> register_tcp_averages() {
  std::vector<micro_row> rows;
  for (auto const& [size, floats] : sizes_of_averages()) {
    for (bool const over_tcp : {true, false}) {
      std::string const name =
          (over_tcp ? "tcp" : "one machine:") + (" average of " + size + " floats, 2 workers and a server");
      benchmark::RegisterBenchmark(name.c_str(), bench_average, floats, over_tcp)->UseManualTime()->Iterations(1);
      rows.push_back({name, "raw exchange of " + size + " floats, 2 processes", 0, "", ""});
    }
  }
  return rows;
}

}  // namespace rubato::bench
