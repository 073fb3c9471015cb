// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A program's own body, policy and tables under faults: coordinator, servers and workers are fibers of this thread, by
// the code that runs over TCP, in virtual time. Connections break in the middle of a commit, processes stand still, are
// killed and come again, as each seed draws. A seed that fails is repeated by itself, and tells its last events. Under
// SSP, and under an admission that is this program's own.
//   142_under_faults
//   142_under_faults 1 77
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <rubato/rubato.hpp>
#include <rubato/testing/trial.hpp>
#include <rubato/transport/tcp.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

constexpr std::size_t rows = 50;
constexpr int steps = 5;

/// All wait for all in the first steps, while parameters move far; then within a staleness.
struct together_at_first {
  rb::bounded_staleness later{2};
  rb::clock_index first{2};

  rb::staleness bound() const noexcept { return later.bound(); }
  rb::clock_index need(rb::clock_index c, rb::staleness s) const noexcept {
    return std::max(later.need(c, s), std::min(c, first));
  }
  rb::clock_index cache_need(rb::clock_index c, rb::staleness s) const noexcept {
    return std::max(later.cache_need(c, s), std::min(c, first));
  }
};
static_assert(rb::admission_policy<together_at_first>);

/// What every process of a run does, as over TCP; the check of what came out is this program's own.
template <rb::protocol Protocol>
void train(Protocol const& protocol, rb::tcp const& transport, rb::testing::simulated_process& me) {
  rb::cluster cluster{transport, protocol, rb::dense<float>{.rows = rows},
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
  if (cluster.template parameters<1>().front() % steps != 0) throw std::runtime_error("not every step counts once");
}

/// Whether nothing was found.
template <rb::protocol Protocol>
bool try_under_faults(Protocol const& protocol, std::uint64_t seeds, std::uint64_t first) {
  rb::testing::trial_options options{.workers = 3, .servers = 2};
  options.place.when_lost = rb::net::on_loss::go_on;
  std::uint64_t lost = 0, well = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    auto const trial =
        rb::testing::run_trial(seed, options, [&](auto& transport, auto& me) { train(protocol, transport, me); });
    if (!trial.found.empty()) return std::printf("%s\n", trial.text().c_str()), false;
    bool all_well = true;
    for (auto const& end : trial.ends) {
      lost += end.killed;
      all_well = all_well && end.failure.empty();
    }
    well += all_well;
  }
  std::printf("%s: %llu runs of 6 processes and more, %llu killed on the way; in %llu runs every process ended well\n",
              std::string(rb::name_of(protocol)).c_str(), static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(lost), static_cast<unsigned long long>(well));
  return true;
}

int main(int argc, char** argv) {
  std::uint64_t const seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200;
  std::uint64_t const first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  rb::composed const own{together_at_first{}, rb::eager{}, rb::average{}, rb::every_step{}, "together_at_first"};
  bool const good = try_under_faults(rb::ssp{.staleness = 2}, seeds, first) && try_under_faults(own, seeds, first);
  return good ? 0 : 1;
}
