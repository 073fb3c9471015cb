// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Not of a paper: BSP and SSP over a slow and narrow network, once with processes, whose
// connections all pass a proxy, and once in the simulator; and training there with fewer bytes.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/processes/run_processes.hpp"
#include "bench/reproduce/best_rate.hpp"
#include "bench/reproduce/ground.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/result/curve.hpp"
#include "bench/result/text.hpp"
#include "bench/train/body.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/storage/bfloat16.hpp"
#include "rubato/storage/int8_blocks.hpp"
#include "rubato/transport/simulated.hpp"
#include "rubato/transport/tcp.hpp"
#include "src/tools/proxy/proxy.hpp"

namespace rubato::bench {
namespace {

using namespace std::chrono_literals;

/// What both have in common.
struct scene {
  std::uint32_t workers = 3;
  std::uint32_t servers = 1;
  std::int64_t clocks = 30;
  std::uint64_t seed = 1;
  std::size_t floats = 250'000;
  std::chrono::milliseconds delay = 20ms;
  std::uint64_t bits_per_second = 100'000'000;  ///< of each connection between worker and server

  /// Milliseconds that a worker computes in a clock, drawn evenly.
  [[nodiscard]] double work(std::uint32_t rank, clock_index c) const {
    constexpr std::uint64_t least = 50, greatest = 150;
    std::uint64_t const draw = detail::mix64(seed << 40 ^ std::uint64_t{rank} << 32 ^
                                             static_cast<std::uint64_t>(c.value()));
    return static_cast<double>(least + draw % (greatest - least + 1));
  }
  /// What the bytes of a commit take, which all connections of a worker carry at the same time.
  [[nodiscard]] duration time_of_commit() const {
    return sim::transfer_time(floats * sizeof(float), servers * bits_per_second / 8);
  }
  [[nodiscard]] dense<float> table() const { return {.rows = floats}; }
};

struct measured {
  double seconds_per_clock = 0;
  time_split spent{};
  double megabytes_per_clock = 0;  ///< that a worker sends
};

measured measured_of(scene const& s, run_report const& report) {
  auto const clocks = static_cast<double>(s.clocks);
  worker_metrics const all = report.total();
  return {.seconds_per_clock = to_seconds(report.elapsed) / clocks,
          .spent = {to_seconds(all.compute), to_seconds(all.send), to_seconds(all.wait)},
          .megabytes_per_clock = static_cast<double>(all.bytes_sent) / 1e6 / clocks / s.workers};
}

/// The same body for both: computing is a pause, and `pause` does nothing where the transport
/// charges for what `step` is told. `committed()` is called after each commit.
template <class Pause, class Committed>
void live(training_worker& worker, scene const& s, Pause pause, Committed committed) {
  std::vector<float> parameters(s.floats), delta(s.floats, 1e-3F);
  while (worker.clock().value() < s.clocks) {
    worker.pull(parameters);
    double const milliseconds = s.work(worker.rank(), worker.clock());
    pause(std::chrono::duration<double, std::milli>(milliseconds));
    worker.push(delta);
    worker.step(milliseconds);
    committed();
  }
}

measured simulate(scene const& s, rules const& p) {
  // A worker's card is shared by its connections, which carry as much each.
  sim::scenario const network{
      .speed = {.work_cost = 1ms},
      .network = {.worker_link = {.latency = s.delay,
                                  .bandwidth = s.servers * s.bits_per_second / 8}},
      .seed = s.seed};
  cluster c{simulated{.workers = s.workers, .servers = s.servers, .scenario = network}, p,
            s.table()};
  return measured_of(s, c.run([&](training_worker& worker) {
    live(
        worker, s, [](auto) {}, [] {});
  }));
}

/// A proxy before the coordinator and one before each server.
class wide_area {
 public:
  explicit wide_area(scene const& s) {
    tools::meddling const slow{.delay = s.delay, .bits_per_second = s.bits_per_second};
    for (std::uint32_t i = 0; i <= s.servers; ++i)
      proxies_.push_back(std::make_unique<tools::proxy>(slow, i));
  }

  [[nodiscard]] process_plan plan(scene const& s) const {
    auto const address = [this](std::uint32_t i) { return proxies_[i]->address(); };
    return {.workers = s.workers,
            .servers = s.servers,
            .coordinator_address = [=] { return address(0); },
            .server_address = [=](std::uint32_t rank) { return address(1 + rank); },
            .listening =
                [this](net::role as, std::uint32_t rank, net::address const& where) {
                  proxies_[as == net::role::coordinator ? 0 : 1 + rank]->forward_to(where);
                }};
  }

 private:
  std::vector<std::unique_ptr<tools::proxy>> proxies_;
};

/// When a worker of a process goes on after a commit.
enum class after_commit {
  at_once,   ///< sends side by side with what comes next
  when_sent  ///< when the commit's bytes have passed the link, as workers of the simulator do
};

measured run_on_tcp(scene const& s, rules const& p, after_commit next) {
  auto const play = [&](net::deployment const& place, auto const& listens) -> std::string {
    cluster group{tcp{.place = place, .seed = s.seed}, p, s.table()};
    if (place.as != net::role::worker) listens(group.runtime().bound());
    auto const body = [&](training_worker& worker) {
      auto const pause = [](auto time) { std::this_thread::sleep_for(time); };
      live(worker, s, pause, [&] {
        if (next == after_commit::when_sent) pause(s.time_of_commit());
      });
    };
    measured const m = measured_of(s, group.run(body));
    return nlohmann::json({m.seconds_per_clock, m.spent.compute, m.spent.send, m.spent.wait,
                           m.megabytes_per_clock})
        .dump();
  };
  wide_area const network(s);
  auto const said = nlohmann::json::parse(run_processes(network.plan(s), play));
  return {.seconds_per_clock = said.at(0),
          .spent = {said.at(1), said.at(2), said.at(3)},
          .megabytes_per_clock = said.at(4)};
}

std::vector<std::string> row(std::string name, scene const& s, measured const& m) {
  return {std::move(name),
          std::to_string(s.servers),
          show_seconds(m.seconds_per_clock),
          show_share(m.spent.share(m.spent.compute)),
          show_share(m.spent.share(m.spent.send)),
          show_share(m.spent.share(m.spent.wait)),
          fmt::format("{:.2f} MB", m.megabytes_per_clock)};
}

std::string ratio(measured const& processes, measured const& simulator) {
  return fmt::format("{:.2f}", processes.seconds_per_clock / simulator.seconds_per_clock);
}

/// Adds the rows of one protocol; returns what its processes take for a clock, and the simulator.
/// @param sends_aside whether workers have something to do while their commits are on the way
std::pair<double, double> measure_both(text_table& table, scene const& s, std::string const& name,
                                       rules const& p, bool sends_aside) {
  measured const simulator = simulate(s, p);
  measured const processes = run_on_tcp(s, p, after_commit::at_once);
  table.rows.push_back(row(name + ", simulator", s, simulator));
  table.rows.push_back(row(name + ", processes", s, processes));
  table.rows.back().push_back(ratio(processes, simulator));
  if (sends_aside) {
    measured const blocking = run_on_tcp(s, p, after_commit::when_sent);
    table.rows.push_back(row(name + ", processes that send, then compute", s, blocking));
    table.rows.back().push_back(ratio(blocking, simulator));
  }
  return {processes.seconds_per_clock, simulator.seconds_per_clock};
}

/// How updates and answers are written over the slow link.
struct wire_format {
  char const* name;
  table_codec codec{};
  update_filter filter{};
};

/// BSP to the same loss, in fewer and fewer bytes, each at its best rate.
void train_in_fewer_bytes(reproduce_options const& options) {
  ground const g(options, {.workers = 4,
                           .link = {.latency = 20ms, .bandwidth = 10'000'000 / 8},
                           .batch = 0.02,
                           .steps = 400,
                           .features = 20'000});
  auto const largest = [](double share, small_entries others) {
    return update_filter{.threshold = 0, .largest = share, .small = others};
  };
  table_codec const half{.updates = bfloat16{}, .answers = bfloat16{}};
  table_codec const byte{.updates = int8_blocks{}, .answers = int8_blocks{}};
  text_table table{.head = {"", "rate", "time", "commits", "sent in each", "received", "all", "of plain"}, .rows = {}};
  double plain = 0;
  for (wire_format const& f : {wire_format{"as they are", {}, {}}, wire_format{"bfloat16", half, {}},
                               wire_format{"int8", byte, {}},
                               wire_format{"int8, the largest 5%", byte, largest(0.05, small_entries::carry)},
                               wire_format{"int8, the largest 1%", byte, largest(0.01, small_entries::carry)},
                               wire_format{"the same, others lost", byte, largest(0.01, small_entries::drop)}}) {
    training job = g.job();
    job.codec = f.codec;
    job.filter = f.filter;
    finish const to{run_at_best_rate(job, [](double) { return bsp{}; }, 1)};
    if (plain == 0) plain = to.seconds();
    auto const each = [&](std::uint64_t bytes) {
      return fmt::format("{:.3g} kB", static_cast<double>(bytes) / 1e3 / static_cast<double>(to.run.updates));
    };
    table.rows.push_back({f.name, fmt::format("{:.3g}", to.run.learning_rate),
                          to.arrived() ? show_seconds(to.seconds()) : "-", fmt::format("{}", to.run.counted_updates()),
                          each(to.run.bytes_sent), each(to.run.bytes_received),
                          fmt::format("{:.3g} MB", to.bytes() / 1e6), show_ratio(to.seconds() / plain)});
  }
  fmt::print("{}", table.to_string());
}

}  // namespace

void reproduce_wide_area(reproduce_options const& options) {
  text_table table{
      .head = {"", "servers", "clock", "computing", "sending", "waiting", "sent", "of simulated"},
      .rows = {}};
  std::string gains;
  scene s{.clocks = options.clocks.value_or(30), .seed = options.seed};
  for (s.servers = 1; s.servers <= 2; ++s.servers) {
    auto const bsp_clock = measure_both(table, s, "BSP", with(bsp{}, every{1}), false);
    auto const ssp_clock =
        measure_both(table, s, "SSP(2)", with(ssp{.staleness = 2}, every{1}), true);
    gains += fmt::format("{} server{}: SSP(2) is {} as fast as BSP in processes, {} simulated.\n",
                         s.servers, s.servers == 1 ? "" : "s",
                         show_ratio(bsp_clock.first / ssp_clock.first),
                         show_ratio(bsp_clock.second / ssp_clock.second));
  }
  fmt::print(
      "{} workers compute for 50 to 150 ms in each of {} clocks, at random, and send and fetch {} "
      "MB;\n{} ms and {} Mbit/s on each connection, each way.\n\n{}\n{}",
      s.workers, s.clocks, static_cast<double>(s.floats) * 4 / 1e6, s.delay.count(),
      s.bits_per_second / 1'000'000, table.to_string(), gains);
  fmt::print("\nBSP over 20 ms and 10 Mbit/s, simulated, with updates and answers in fewer bytes. ");
  train_in_fewer_bytes(options);
}

}  // namespace rubato::bench
