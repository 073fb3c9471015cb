// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What recorded seeds do, under all protocols: every event, every read and the final parameters,
// hashed. A change of one of these numbers is a change of what runs do: on purpose, or a bug.
#include <bit>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <rubato/cluster/cluster.hpp>
#include <rubato/cluster/peer_group.hpp>
#include <rubato/core/mix.hpp>
#include <rubato/peer/ad_psgd.hpp>
#include <rubato/peer/all_reduce.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/protocol/ada_comm.hpp>
#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/con_sgd.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/fixed_ada_comm.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/testing/observed_peers.hpp>
#include <rubato/testing/observed_run.hpp>
#include <rubato/transport/simulated.hpp>
#include <vector>

using namespace rubato;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t seeds_of_each = 40;

class hash {
 public:
  void add(std::uint64_t word) noexcept {
    value_ = detail::mix64(value_ ^ word) + 0x9e3779b97f4a7c15u;
  }
  void add(std::vector<float> const& all) noexcept {
    for (float const x : all) add(std::bit_cast<std::uint32_t>(x));
  }
  void add(std::vector<double> const& all) noexcept {
    for (double const x : all) add(std::bit_cast<std::uint64_t>(x));
  }
  void add(time_point t) noexcept { add(static_cast<std::uint64_t>(t.since_start().count())); }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// Random schedules with joins, leaves and losses; all kinds of tables, read and pushed in all ways.
template <protocol P>
std::uint64_t hash_of_runs(P const& p) {
  hash h;
  staleness const s = p.admission().bound();
  testing::expectations rules = testing::eager_rules(s);
  rules.holds_back = true;  // what is watched changes nothing
  for (std::uint64_t seed = 1; seed <= seeds_of_each; ++seed) {
    testing::outcome const run =
        testing::observed_run(p, testing::random_schedule(0x601d + seed), rules);
    h.add(run.events);
    h.add(run.reads);
    h.add(run.report.events);
    h.add(static_cast<std::uint64_t>(run.report.elapsed.count()));
    h.add(run.report.updates);
    h.add(run.weights);
  }
  return h.value();
}

enum losses { evaluated, reported };

/// A run whose pace goes by the loss, which the run evaluates or the bodies report.
template <protocol P>
std::uint64_t hash_of_conducted_run(P const& p, losses told) {
  hash h;
  sim::scenario scenario;
  scenario.speed = {.work_cost = 1ms, .slowness = {1, 2.5, 1, 4}, .jitter = sim::uniform{0.8, 1.2}};
  scenario.network.worker_link.latency = 200us;
  scenario.crashes = {{.worker = worker_id{2}, .at = 300ms}};
  scenario.joins = {{.at = 150ms}};
  cluster c{simulated{.workers = 4, .servers = 2, .scenario = scenario}, p,
            dense<double>{.rows = 8}};
  auto const loss = [](std::vector<double> const& w) {
    double sum = 0;
    for (double const x : w) sum += (x - 1) * (x - 1);
    return sum;
  };
  c.runtime().on_event([&] {
    h.add(c.now());
    h.add(c.updates());
  });
  auto const body = [&](auto& worker) {
    std::vector<double> w(8), delta(8);
    while (worker.now() < time_point(1s)) {
      worker.pull(w);
      for (std::size_t i = 0; i < w.size(); ++i)
        delta[i] = 0.01 * (1 - w[i]) + 0.002 * (worker.random().uniform() - 0.5);
      worker.push(delta);
      if (told == reported) worker.report_loss(loss(w));
      worker.step();
    }
  };
  run_report const r = told == reported ? c.run(body) : c.run(body, loss);
  h.add(r.events);
  h.add(static_cast<std::uint64_t>(r.elapsed.count()));
  for (auto const& change : r.pace_changes) {
    h.add(change.at);
    h.add(static_cast<std::uint64_t>(change.value));
  }
  h.add(c.parameters());
  return h.value();
}

template <hop_protocol P>
std::uint64_t hash_of_peers(P const& p, testing::peer_schedule_limits const& limits) {
  hash h;
  for (std::uint64_t seed = 1; seed <= seeds_of_each; ++seed) {
    testing::peer_outcome const run =
        testing::observed_peers(p, testing::random_peers(0x601d + seed, limits));
    h.add(run.events);
    h.add(run.report.events);
    h.add(static_cast<std::uint64_t>(run.report.elapsed.count()));
    h.add(run.parameters);
  }
  return h.value();
}

template <class P>
std::uint64_t hash_of_group(P const& p) {
  hash h;
  sim::scenario scenario;
  scenario.speed = {.work_cost = 1ms, .jitter = sim::uniform{0.5, 2}};
  scenario.network.worker_link = {.latency = 300us, .jitter = sim::exponential{}, .bandwidth = 1'000'000};
  scenario.machine_of = sim::blocks(8, 3);
  peer_group group{simulated{.scenario = scenario}, ring(8), p, sgd{.rate = 0.1, .momentum = 0.5},
                   std::vector<double>(20, 1.0)};
  group.runtime().on_event([&] { h.add(group.now()); });
  peer_report const r = group.run([](auto& peer) {
    std::vector<double> gradient(20);
    for ([[maybe_unused]] auto const k : peer.iterations(30)) {
      for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = peer.parameters()[i] + peer.random().uniform();
      peer.step(gradient);
    }
  });
  h.add(r.events);
  h.add(static_cast<std::uint64_t>(r.elapsed.count()));
  for (std::uint32_t i = 0; i < group.size(); ++i) h.add(group.parameters(i));
  return h.value();
}

}  // namespace

TEST_CASE("Recorded seeds do what they did, with servers", "[simulated][golden]") {
  CHECK(hash_of_runs(bsp{}) == 0xff047b0df4fbf8bc);
  CHECK(hash_of_runs(ssp{.staleness = 2}) == 0xd89eb62c78530798);
  CHECK(hash_of_runs(basic_ssp<strict, average>{.staleness = 1}) == 0x41fbec58d750007e);
  CHECK(hash_of_runs(asp{}) == 0xe9001123fb41a0d1);
  CHECK(hash_of_runs(con_sgd{.staleness = 3}) == 0x46624a9a38611aa5);
  CHECK(hash_of_runs(dyn_sgd{.staleness = 2}) == 0xa99d8e1014202750);
  CHECK(hash_of_runs(with(dyn_sgd{.staleness = 1}, strict{}, revise{versions::capped})) == 0x6c0084b800ace7ee);
  CHECK(hash_of_runs(with(dyn_sgd{.staleness = 2}, stable_cut{})) == 0x3ed7d89a9b745cc4);
  CHECK(hash_of_runs(with(ssp{.staleness = 2}, stable_cut{})) == 0xa819182bce5eb932);
  CHECK(hash_of_runs(with(bsp{}, momentum{})) == 0xce972df720853c91);
  CHECK(hash_of_runs(with(asp{}, momentum{.mu = 0.5}, every{3})) == 0x81d49480c58ea622);
  CHECK(hash_of_runs(fixed_ada_comm{.steps = 3}) == 0x39c24c1619745198);
  CHECK(hash_of_runs(ada_comm{.first_steps = 4, .interval = 5ms}) == 0x287280e28ee2d679);
  CHECK(hash_of_runs(adsp{.check_period = 8ms, .epoch = 80ms, .probe_period = 16ms}) == 0xa9591217ac30d27d);
}

TEST_CASE("Recorded seeds do what they did, with a conductor", "[simulated][golden]") {
  adsp const search{.check_period = 20ms, .epoch = 400ms, .probe_period = 60ms};
  ada_comm const period{.first_steps = 12, .interval = 100ms};
  auto const mixed = with(ssp{.staleness = 1}, adsp{.check_period = 20ms}.pace(), momentum{.mu = 0.3});
  CHECK(hash_of_conducted_run(search, evaluated) == 0x257a1c1c38f47dd7);
  CHECK(hash_of_conducted_run(search, reported) == 0xfe0c2bc155917f4d);
  CHECK(hash_of_conducted_run(period, evaluated) == 0x11c144c23db1a7b3);
  CHECK(hash_of_conducted_run(period, reported) == 0x8b2322d4e92f673);
  CHECK(hash_of_conducted_run(mixed, evaluated) == 0xf683edef87bb893a);
  CHECK(hash_of_conducted_run(mixed, reported) == 0xa60677a192d4f4eb);
}

TEST_CASE("Recorded seeds do what they did, among peers", "[simulated][golden]") {
  testing::peer_schedule_limits const lossless{.crashes = false, .leaves = false};
  CHECK(hash_of_peers(hop(), lossless) == 0xe8bf77134e073da);
  CHECK(hash_of_peers(hop(iteration_order::serial), lossless) == 0x165e62c00033858b);
  CHECK(hash_of_peers(hop(notify_ack{}), lossless) == 0x4acaf189bfc79584);
  CHECK(hash_of_peers(hop(token_queues{3}), lossless) == 0xd15cff70ee9a5835);
  CHECK(hash_of_peers(hop(gather_all_but{1}, token_queues{4}), {.in_min = 1}) == 0x2f79f8b043cebf6c);
  CHECK(hash_of_peers(hop(gather_newest{.staleness = 3}), {}) == 0xcf102accf914a379);
  CHECK(hash_of_peers(hop(gather_hybrid{.staleness = 2, .backups = 1}, token_queues{5}),
                      {.in_min = 1}) == 0xe17d11143aa8ced6);
  CHECK(hash_of_peers(hop(gather_all_but{1}, token_queues{6}, bounded_jump{}), {.in_min = 1}) == 0x7c7a7c9dfb99d888);
  CHECK(hash_of_group(ad_psgd{}) == 0xc1cc9e7ed42bcc88);
  CHECK(hash_of_group(all_reduce{}) == 0xc015034d6376fd4f);
}
