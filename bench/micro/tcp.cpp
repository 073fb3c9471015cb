// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The TCP transport over loopback, beside plain sockets between two processes in the same places.
// This process is the worker, the other one the server, which coordinates, too.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/micro/keys.hpp"
#include "bench/micro/raw_sockets.hpp"
#include "bench/micro/table.hpp"
#include "bench/micro/tcp_process.hpp"
#include "bench/micro/tcp_server.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::bench {
namespace {

template <class F>
double seconds_of(F f) {
  auto const start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// ---- plain sockets

template <class F>
void with_raw_peer(benchmark::State& state, placement const& where, raw_task const& task,
                   F measure) {
  try {
    pinned const here(where.here);
    raw_peer const peer(task, where.there);
    measure(peer.socket());
  } catch (std::exception const& e) {
    state.SkipWithError(e.what());
  }
}

/// A byte asks, and `bytes` come. Timed from the one to the last of the others: one byte is the
/// ping-pong, many are what one pull can at best be.
void bench_raw_pull(benchmark::State& state, placement const& where, std::size_t bytes) {
  raw_task const task{.what = raw_task::kind::send, .bytes = bytes};
  with_raw_peer(state, where, task, [&](raw_socket const& peer) {
    std::array<std::byte, 1> const question{};
    std::vector<std::byte> answer(bytes);
    auto const pull = [&] {
      peer.write(question);
      peer.read(answer);
    };
    pull();  // the first one takes fresh memory
    for (auto _ : state) state.SetIterationTime(seconds_of(pull));
  });
}

/// Messages one after another, and a byte that says that all have come: the time of one message.
/// With `adds`, the time of an axpy over as many bytes comes on top, as if a server did it
/// afterwards.
void bench_raw_push(benchmark::State& state, placement const& where, raw_task const& task,
                    bool adds) {
  with_raw_peer(state, where, task, [&](raw_socket const& peer) {
    std::vector<float> const message(task.bytes / sizeof(float), 1e-3F);
    std::vector<float> parameters(adds ? message.size() : 0);
    std::array<std::byte, 1> answer;
    auto const push = [&] {
      for (std::size_t i = 0; i < task.count; ++i) peer.write(std::as_bytes(std::span(message)));
      peer.read(answer);
    };
    auto const axpy = [&] {
      if (!adds) return;
      for (std::size_t i = 0; i < task.count; ++i) {
        detail::add_row(parameters.data(), message.data(), message.size());
        benchmark::ClobberMemory();
      }
    };
    push();
    axpy();
    for (auto _ : state)
      state.SetIterationTime((seconds_of(push) + seconds_of(axpy)) /
                             static_cast<double>(task.count));
  });
}

// ---- the transport

/// Runs the measurement on the one worker of a cluster whose server is another process.
template <class F>
void on_worker(benchmark::State& state, placement const& where, rules const& p, std::uint64_t rows,
               std::size_t width, F measure, bool over_tcp = true) {
  try {
    scratch_directory const scratch;
    served_table const t{.protocol = p.name,
                         .rows = rows,
                         .width = width,
                         .coordinator = scratch.path() / "coordinator",
                         .core = where.there,
                         .over_tcp = over_tcp};
    pinned const here(where.here);
    other_process server(t.words());
    {
      cluster c{tcp{.place = t.place(net::role::worker)}, p,
                dense<float>{.rows = rows, .width = width}};
      c.run([&](auto& worker) { measure(worker); });
    }
    server.wait();
  } catch (std::exception const& e) {
    state.SkipWithError(e.what());
  }
}

/// Returns once the server has all commits: in a new clock a row is not found in the replica, and
/// the server answers what comes on one connection in order.
template <class Worker>
void catch_up(Worker& worker, std::vector<float>& row) {
  worker.pull(std::array{key{0}}, row, staleness{0});
}

/// One row each time, another one, so that each is fetched: a question and an answer over the wire.
void bench_pull_row(benchmark::State& state, placement const& where) {
  constexpr std::uint64_t rows = 1 << 16;
  constexpr std::uint64_t rows_of_a_clock = 256;
  on_worker(state, where, asp{}, rows, 1, [&](auto& worker) {
    std::vector<float> out(1);
    std::uint64_t next = 0;
    for (auto _ : state) {
      if (next % rows_of_a_clock == 0) {
        worker.commit();  // empty: it only makes the worker forget its rows
        catch_up(worker, out);
      }
      std::array const one{key{1 + next++ * 5 % (rows - 1)}};
      state.SetIterationTime(seconds_of([&] { worker.pull(one, out); }));
    }
  });
}

/// The whole table each time, in a clock of its own, so that each is fetched. What ends a clock has
/// arrived before the time starts.
void bench_pull(benchmark::State& state, placement const& where, std::size_t bytes, bool over_tcp) {
  std::size_t const n = bytes / sizeof(float);
  auto const measure = [&](auto& worker) {
    std::vector<float> row(1), w(n);
    auto const seconds_of_pull = [&] {
      worker.commit();
      catch_up(worker, row);
      return seconds_of([&] { worker.pull(w); });
    };
    for (int i = 0; i < 2; ++i) seconds_of_pull();  // the replica takes fresh memory twice
    for (auto _ : state) state.SetIterationTime(seconds_of_pull());
  };
  on_worker(state, where, asp{}, n, 1, measure, over_tcp);
}

/// How a step's update comes to be.
enum class written : std::uint8_t { before, each_time, in_place };

/// A training step of a worker alone: pulls the whole table, pushes as much and commits. Timed until the server has
/// added them all.
void bench_steps(benchmark::State& state, placement const& where, std::size_t bytes, bool over_tcp, written how) {
  std::size_t const n = bytes / sizeof(float);
  constexpr int steps = 4;
  auto const measure = [&](auto& worker) {
    std::vector<float> row(1), w(n);
    std::vector<float> u(n, 1e-3F);
    auto const write = [](std::span<float> delta) { std::ranges::fill(delta, 1e-3F); };
    auto const step = [&] {
      for (int i = 0; i < steps; ++i) {
        worker.pull(w);
        if (how == written::each_time) write(u);
        if (how == written::in_place) worker.push_in_place(write);
        else worker.push(u);
        worker.commit();
      }
      catch_up(worker, row);
    };
    step();
    for (auto _ : state) state.SetIterationTime(seconds_of(step) / steps);
  };
  on_worker(state, where, asp{}, n, 1, measure, over_tcp);
}

/// `count` times the whole table, a commit each. Timed from the first push until the server has
/// added them all. `in_place`: what is pushed has been computed where it is sent from, as a raw message has.
void bench_push(benchmark::State& state, placement const& where, std::size_t bytes, std::size_t count, bool in_place) {
  std::size_t const n = bytes / sizeof(float);
  on_worker(state, where, asp{}, n, 1, [&](auto& worker) {
    std::vector<float> row(1);
    std::vector<float> const u(n, 1e-3F);
    auto const push = [&] {
      for (std::size_t i = 0; i < count; ++i) {
        if (in_place) worker.push_in_place([](std::span<float> delta) { delta.front() = 1e-3F; });
        else worker.push(u);
        worker.commit();
      }
      catch_up(worker, row);
    };
    push();
    for (auto _ : state) state.SetIterationTime(seconds_of(push) / static_cast<double>(count));
  });
}

/// A thousand of ten million rows, each time in a clock of its own. What ends a clock has arrived before the time starts.
void bench_pull_keys(benchmark::State& state, placement const& where) {
  auto const batches = batches_of_keys(1);
  on_worker(state, where, asp{}, rows_to_choose_from, 1, [&](auto& worker) {
    std::vector<float> row(1), out(keys_in_a_batch);
    for (auto _ : state) {
      double seconds = 0;
      for (auto const& batch : batches) {
        worker.commit();
        catch_up(worker, row);
        seconds += seconds_of([&] { worker.pull(batch, out); });
      }
      state.SetIterationTime(seconds / batches_in_a_round);
    }
  });
}

/// The same pushed, a commit each, timed until the server has added them all; `pulls`: and read before, as a step does.
void bench_push_keys(benchmark::State& state, placement const& where, bool pulls) {
  auto const batches = batches_of_keys(1);
  on_worker(state, where, asp{}, rows_to_choose_from, 1, [&](auto& worker) {
    std::vector<float> row(1), out(keys_in_a_batch, 1e-3F);
    auto const round = [&] {
      for (auto const& batch : batches) {
        if (pulls) worker.pull(batch, out);
        worker.push(batch, out);
        worker.commit();
      }
      catch_up(worker, row);
    };
    round();
    for (auto _ : state) state.SetIterationTime(seconds_of(round) / batches_in_a_round);
  });
}

/// Rows of 100 floats, a commit each. Timed from the first push until the server has added them
/// all. How many are on their way is left to the protocol, or, under `asp`, to the transport.
void bench_small_pushes(benchmark::State& state, placement const& where, rules const& p,
                        std::size_t count) {
  constexpr std::uint64_t rows = 1000;
  constexpr std::size_t width = 100;
  on_worker(state, where, p, rows, width, [&](auto& worker) {
    std::vector<float> row(width);
    std::vector<float> const u(width, 1e-3F);
    auto const push = [&] {
      for (std::size_t i = 0; i < count; ++i) {
        worker.push(std::array{key{i % rows}}, u);
        worker.commit();
      }
      catch_up(worker, row);
    };
    push();
    for (auto _ : state) state.SetIterationTime(seconds_of(push) / static_cast<double>(count));
  });
}

// ---- rows

constexpr std::size_t small_pushes = 100'000;
constexpr char const* aim_of_transfers = "<= 1/0.85 = 1.18";

/// Units per iteration, and what is promised; the rest is filled in when the row is added.
micro_row counted(double per_second, std::string unit, std::string bound = "") {
  return {"", "", per_second, std::move(unit), std::move(bound)};
}

/// Registers the rows of one placement.
class registration {
 public:
  registration(placement where, std::vector<micro_row>& rows)
      : where_(std::move(where)), rows_(rows) {}

  void pull_of_a_row() {
    std::string const raw =
        add("raw ping-pong of 1 byte", "", counted(0, ""), bench_raw_pull, std::size_t{1});
    add("tcp pull of 1 row", raw, counted(0, "", "<= 1.3"), bench_pull_row);
  }

  void transfers(std::string const& size, std::size_t bytes) {
    std::size_t const count = std::clamp<std::size_t>((64 << 20) / bytes, 4, 256);
    micro_row const rate = counted(static_cast<double>(bytes), "B");
    micro_row const aim = counted(static_cast<double>(bytes), "B", aim_of_transfers);
    raw_task const pushes{.what = raw_task::kind::receive, .bytes = bytes, .count = count};

    std::string const raw_pull = add("raw pull of " + size, "", rate, bench_raw_pull, bytes);
    add("tcp pull of " + size, raw_pull, aim, bench_pull, bytes, true);
    add_once("raw push of " + size, "", rate, bench_raw_push, pushes, false);
    std::string const both =
        add_once("raw push of " + size + ", axpy", "", rate, bench_raw_push, pushes, true);
    add_once("tcp push of " + size, both, aim, bench_push, bytes, count, false);
    add_once("tcp push of " + size + ", in place", both, aim, bench_push, bytes, count, true);
  }

  /// Beside the same over loopback.
  void one_machine(std::string const& size, std::size_t bytes, std::string const& bound) {
    micro_row const rate = counted(static_cast<double>(bytes), "B");
    std::string const pull = "tcp pull of " + size;
    std::string const over_tcp = is_there(pull) ? name_of(pull) : add(pull, "", rate, bench_pull, bytes, true);
    add("one machine: pull of " + size, over_tcp, counted(static_cast<double>(bytes), "B", bound), bench_pull, bytes,
        false);
    std::string const step = add("tcp step of " + size, "", rate, bench_steps, bytes, true, written::before);
    add("one machine: step of " + size, step, rate, bench_steps, bytes, false, written::before);
    for (bool const tcp : {true, false}) {
      std::string const name = (tcp ? "tcp step of " : "one machine: step of ") + size;
      std::string const anew = add(name + ", written", "", rate, bench_steps, bytes, tcp, written::each_time);
      add(name + ", written in place", anew, rate, bench_steps, bytes, tcp, written::in_place);
    }
  }

  void keys() {
    micro_row const rate = counted(1, "times");
    auto const bytes = [](std::size_t n) { return keys_in_a_batch * n; };
    std::string const raw_pull = add("raw pull of 4 KB", "", rate, bench_raw_pull, bytes(sizeof(float)));
    add("tcp pull of 1000 of 10M keys", raw_pull, counted(1, "times", ">= 14.3k/s (ps-lite)"), bench_pull_keys);
    raw_task const pushes{.what = raw_task::kind::receive,
                          .bytes = bytes(sizeof(float) + sizeof(std::uint64_t)),
                          .count = batches_in_a_round};
    std::string const raw_push = add("raw push of 12 KB", "", rate, bench_raw_push, pushes, false);
    add("tcp push of 1000 of 10M keys", raw_push, counted(1, "times", ">= 28.5k/s (ps-lite)"), bench_push_keys, false);
    add("tcp pull and push of 1000 of 10M keys", "", rate, bench_push_keys, true);
  }

  void pushes_of_100_floats() {
    micro_row const rate = counted(1, "pushes");
    micro_row const aim = counted(1, "pushes", where_.here == where_.there ? "" : ">= 800k/s");
    raw_task const messages{.what = raw_task::kind::receive, .bytes = 440, .count = small_pushes};
    std::string const raw =
        add_once("raw push of 440 bytes", "", rate, bench_raw_push, messages, false);
    add_once("tcp push of 100 floats", raw, aim, bench_small_pushes, rules(asp{}), small_pushes);
    add_once("tcp push of 100 floats, 256 ahead", raw, aim, bench_small_pushes,
             rules(in_flight_256), small_pushes);
  }

 private:
  [[nodiscard]] std::string name_of(std::string const& name) const { return name + ", " + where_.name; }
  [[nodiscard]] bool is_there(std::string const& name) const {
    return std::ranges::find(rows_, name_of(name), &micro_row::name) != rows_.end();
  }
  template <class F, class... Arguments>
  std::string add(std::string const& name, std::string const& baseline, micro_row row, F f,
                  Arguments const&... arguments) {
    return add_to(name, baseline, std::move(row), f, arguments...).first;
  }
  /// One iteration is enough of those that count many operations.
  template <class F, class... Arguments>
  std::string add_once(std::string const& name, std::string const& baseline, micro_row row, F f,
                       Arguments const&... arguments) {
    auto const [full_name, made] = add_to(name, baseline, std::move(row), f, arguments...);
    made->Iterations(1);
    return full_name;
  }
  template <class F, class... Arguments>
  std::pair<std::string, benchmark::internal::Benchmark*> add_to(std::string const& name,
                                                                 std::string const& baseline,
                                                                 micro_row row, F f,
                                                                 Arguments const&... arguments) {
    row.name = name_of(name);
    row.baseline = baseline;
    auto* const made =
        benchmark::RegisterBenchmark(row.name.c_str(), f, where_, arguments...)->UseManualTime();
    rows_.push_back(row);
    return {row.name, made};
  }

  placement where_;
  std::vector<micro_row>& rows_;
};

}  // namespace

std::vector<micro_row> register_tcp() {
  std::vector<micro_row> rows;
  auto const all = placements();
  if (all.size() < 2)
    fmt::print("tcp: this process may use one core only, so nothing is measured on two\n\n");
  for (placement const& where : all) {
    registration r(where, rows);
    r.pull_of_a_row();
    r.transfers("64 KB", 64 << 10);
    for (std::size_t const megabytes : {1U, 16U, 64U}) r.transfers(fmt::format("{} MB", megabytes), megabytes << 20);
    r.one_machine("64 KB", 64 << 10, "");
    r.one_machine("1 MB", 1 << 20, "");
    r.one_machine("16 MB", 16 << 20, "<= 1/3");
    r.keys();
    r.pushes_of_100_floats();
  }
  return rows;
}

}  // namespace rubato::bench
