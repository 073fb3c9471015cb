// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A program's own body, protocol and tables under faults: coordinator, servers and workers are fibers of this thread,
// by the code that runs over TCP, in virtual time. Connections break in the middle of a commit, processes stand still,
// are killed and come again, as each seed draws. A seed that fails is repeated by itself, and tells its last events.
//   142_under_faults
//   142_under_faults 1 77
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <rubato/rubato.hpp>
#include <rubato/testing/trial.hpp>
#include <rubato/transport/tcp.hpp>
#include <stdexcept>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

constexpr std::size_t rows = 50;
constexpr int steps = 5;

/// What every process of a run does, as over TCP; the check of what came out is this program's own.
void train(rb::tcp const& transport, rb::testing::simulated_process& me) {
  rb::cluster cluster{transport, rb::ssp{.staleness = 2}, rb::dense<float>{.rows = rows},
                      rb::dense<std::int64_t, rb::sum>{.rows = 1}};
  auto const report = cluster.run([&](auto& worker) {
    std::vector<float> w(rows), update(rows);
    for (int step = 0; step < steps; ++step) {
      worker.pull(w);
      me.work(2ms);  // others go on meanwhile
      for (std::size_t i = 0; i < rows; ++i) update[i] = 0.5f * (static_cast<float>(i) - w[i]);
      worker.push(update);
      worker[rb::table<1>].push(std::vector<std::int64_t>{1});
      worker.step();
    }
  });
  if (transport.place.as != rb::net::role::worker || me.is_killed() || report.crashes != 0) return;
  if (cluster.parameters<1>().front() % steps != 0) throw std::runtime_error("not every step counts once");
}

int main(int argc, char** argv) {
  std::uint64_t const seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200;
  std::uint64_t const first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  rb::testing::trial_options options{.workers = 3, .servers = 2};
  options.place.when_lost = rb::net::on_loss::go_on;
  std::uint64_t lost = 0, well = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    auto const trial = rb::testing::run_trial(seed, options, train);
    if (!trial.found.empty()) return std::printf("%s\n", trial.text().c_str()), 1;
    bool all_well = true;
    for (auto const& end : trial.ends) {
      lost += end.killed;
      all_well = all_well && end.failure.empty();
    }
    well += all_well;
  }
  std::printf("%llu runs of 6 processes and more, %llu killed on the way; in %llu runs every process ended well\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(lost),
              static_cast<unsigned long long>(well));
}
