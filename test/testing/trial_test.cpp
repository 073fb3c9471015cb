// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/testing/trial.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/cluster/peer_group.hpp>
#include <rubato/net/log.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/testing/world.hpp>

#include "net/free_port.hpp"
#include "seeds.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using testing::fault;
using testing::simulated_process;

namespace {

constexpr std::size_t counted_rows = 5;
constexpr std::int64_t trial_clocks = 4;

/// Every commit of every worker counts once.
void count_commits(tcp const& transport, simulated_process& me) {
  cluster c{transport, ssp{.staleness = 1}, dense<std::int64_t, sum>{.rows = counted_rows}};
  auto const report = c.run([&](auto& w) {
    std::vector<std::int64_t> seen(counted_rows);
    for (std::int64_t clock = 0; clock < trial_clocks; ++clock) {
      w.pull(seen);
      me.work(1ms);
      w.push(std::vector<std::int64_t>(counted_rows, 1));
      w.commit();
    }
  });
  if (transport.place.as != net::role::worker || me.is_killed() || report.crashes != 0) return;
  auto const& counts = c.parameters();
  if (std::ranges::any_of(counts, [&](std::int64_t n) { return n % trial_clocks != 0 || n != counts.front(); }))
    throw std::runtime_error("not every commit is counted once");
}

}  // namespace

TEST_CASE("trial: a program that is right passes, and all kinds of fault happen", "[world]") {
  testing::trial_options const options{.workers = 2, .servers = 2};
  std::array<std::uint32_t, testing::fault_kinds> happened{};
  std::uint64_t const seeds = test::sanitized() ? 40 : 120;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    auto const r = testing::run_trial(seed, options, count_commits);
    INFO(r.text());
    REQUIRE(r.found == testing::sentences{});
    for (std::size_t f = 0; f < testing::fault_kinds; ++f) happened[f] += r.faults[f];
  }
  for (std::size_t f = 0; f < testing::fault_kinds; ++f) {
    INFO(testing::to_string(static_cast<fault>(f)));
    CHECK((happened[f] != 0) == (static_cast<fault>(f) != fault::twins && static_cast<fault>(f) != fault::liars));
  }
}

TEST_CASE("trial: a worker has two lives at a time, where that is wanted", "[world]") {
  testing::trial_options options{.workers = 2, .with = {fault::twins}};
  options.place.when_lost = net::on_loss::go_on;
  std::uint64_t twins = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    auto const r = testing::run_trial(seed, options, [](tcp const& t, simulated_process& me) {
      cluster c{t, ssp{.staleness = 1}, dense<std::int64_t, sum>{.rows = 1}};
      c.run([&](auto& w) {
        for (int clock = 0; clock < 6; ++clock) {
          me.work(2ms);
          w.push(std::vector<std::int64_t>{1});
          w.commit();
        }
      });
    });
    INFO(r.text());
    REQUIRE(r.found == testing::sentences{});
    twins += r.faults[static_cast<std::size_t>(fault::twins)];
  }
  CHECK(twins > 10);
}

TEST_CASE("trial: a worker says what is not so, where that is wanted", "[world]") {
  testing::trial_options options{.workers = 3, .with = {fault::liars}};
  options.place.when_lost = net::on_loss::go_on;
  std::uint64_t lies = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    auto const r = testing::run_trial(seed, options, count_commits);
    INFO(r.text());
    REQUIRE(r.found == testing::sentences{});
    lies += r.faults[static_cast<std::size_t>(fault::liars)];
  }
  CHECK(lies > 10);
}

TEST_CASE("trial: a program that goes wrong after a loss is found, by a seed that repeats it", "[world]") {
  testing::trial_options options{.workers = 2};
  options.place.when_lost = net::on_loss::go_on;
  auto const wrong = [](tcp const& t, simulated_process& me) {
    cluster c{t, ssp{.staleness = 1}, dense<std::int64_t, sum>{.rows = 1}};
    c.run([&](auto& w) {
      for (int clock = 0; clock < 6; ++clock) {
        me.work(2ms);
        if (me.life() != 0) throw std::runtime_error("a life that begins anew is wrong");
        w.push(std::vector<std::int64_t>{1});
        w.commit();
      }
    });
  };
  auto const found = testing::check_under_faults(options, wrong, 2000);
  REQUIRE_FALSE(found.empty());
  CHECK(found.front().find("seed ") == 0);
  CHECK(std::ranges::any_of(found, [](auto const& s) { return s.find("a life that begins anew") != s.npos; }));
  CHECK(std::ranges::any_of(found, [](auto const& s) { return s.find("is killed") != s.npos; }));
  std::uint64_t const seed = std::stoull(found.front().substr(5));
  std::string const repeat = "repeat by run_trial(" + std::to_string(seed) + ", options, program), with the same two";
  CHECK(std::ranges::count(found, repeat) == 1);
  auto const run = [&] { return testing::run_trial(seed, options, wrong); };
  auto const first = run();
  auto const again = run();
  CHECK_FALSE(first.found.empty());
  CHECK(first.hash == again.hash);
  CHECK(first.events == again.events);
  CHECK(first.story == again.story);
}

TEST_CASE("trial: who does not end is found", "[world]") {
  testing::trial_options options;
  options.harm = false;
  options.bound = 1s;
  options.without = {fault::joiners, fault::impostors};
  auto const r = testing::run_trial(1, options, [](tcp const& t, simulated_process& me) {
    if (t.place.as == net::role::server) me.work(100s);
  });
  REQUIRE(r.found.size() == 1);
  CHECK(r.found.front() == "server 0 has not ended 1 s after the last fault");
}

TEST_CASE("trial: who does not notice in time that the coordinator is gone is found", "[world]") {
  auto const takes = GENERATE(1000ms, 1200ms);  // it may be 1.072 s: silence by 11/8, a break, and six moments
  testing::trial_options options{.with = {fault::kills}};
  options.harm = false;
  options.without = {fault::clocks, fault::joiners, fault::impostors, fault::restarts, fault::short_pauses};
  std::uint64_t of_coordinators = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    auto const r = testing::run_trial(seed, options, [&](tcp const& t, simulated_process& me) {
      me.work(t.place.as == net::role::coordinator ? 100ms : takes);
    });
    INFO(r.text());
    bool const is_gone = std::ranges::any_of(r.ends, [](auto const& e) { return e.name == "coordinator" && e.killed; });
    of_coordinators += is_gone ? 1 : 0;
    bool const is_found = std::ranges::any_of(r.found, [](auto const& s) {
      return s.find(" s after the coordinator, expected within 1.072") != s.npos;
    });
    CHECK(is_found == (is_gone && takes == 1200ms));
    CHECK(r.found.empty() == !is_found);
  }
  CHECK(of_coordinators > 3);
}

TEST_CASE("trial: of two processes with one place both end well only one after the other", "[world]") {
  testing::trial_options options;
  options.with = {fault::impostors};
  options.harm = false;
  for (std::size_t f = 0; f < testing::fault_kinds; ++f)
    if (static_cast<fault>(f) != fault::impostors) options.without.push_back(static_cast<fault>(f));
  bool const is_let_in_later = GENERATE(true, false);
  bool const stands_still = GENERATE(true, false);  // a second coordinator, until the first one has ended
  // The coordinator says who is here; all others take up to 100 ms, and who comes later up to 200.
  auto const program = [&](tcp const& t, simulated_process& me) {
    auto const say = [](std::string const& name) { net::log(net::log_level::info, name + " is here"); };
    if (t.place.as == net::role::coordinator) {
      me.work(stands_still && me.number() >= 4 ? 300ms : 1ms);
      for (char const* name : {"server 0", "worker 0", "worker 1"}) say(name);
      me.work(149ms);
      if (is_let_in_later)
        for (char const* name : {"server 0", "worker 0", "worker 1"}) say(name);
      me.work(100ms);
      return;
    }
    me.work(me.number() < 4 ? 100ms : 200ms);
  };
  int of_coordinators = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto const r = testing::run_trial(seed, options, program);
    INFO(r.text());
    std::string const name = r.ends.back().name;
    of_coordinators += name == "coordinator" ? 1 : 0;
    if (name == "coordinator" ? stands_still : is_let_in_later) CHECK(r.found == testing::sentences{});
    else CHECK(r.found == testing::sentences{"2 processes that are " + name + " end well"});
  }
  CHECK(of_coordinators > 0);
  CHECK(of_coordinators < 20);
}

TEST_CASE("trial: without servers peers are tried in the same way", "[world][peers]") {
  testing::trial_options const options{.workers = 3, .servers = 0};
  bool has_trained = false;
  auto const train = [&](tcp const& t, simulated_process& me) {
    peer_group group{t, ring(3), hop(), sgd{.rate = 0.1}, std::vector<float>(4, 1)};
    group.run([&](auto& peer) {
      for ([[maybe_unused]] std::int64_t const k : peer.iterations(5)) {
        me.work(2ms);
        peer.step(std::vector<float>(4, 1));
      }
    });
    has_trained = has_trained || t.place.as == net::role::worker;
  };
  CHECK(testing::check_under_faults(options, train, 40) == testing::sentences{});
  CHECK(has_trained);
}

TEST_CASE("trial: what is not wanted does not happen", "[world]") {
  testing::trial_options options;
  options.harm = false;
  options.without = {fault::cuts, fault::joiners};
  std::uint32_t others = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto const r = testing::run_trial(seed, options, count_commits);
    INFO(r.text());
    REQUIRE(r.found == testing::sentences{});
    CHECK_FALSE(r.harmful);
    for (std::size_t f = 0; f < testing::fault_kinds; ++f) {
      bool const is_allowed = !testing::is_harmful(static_cast<fault>(f)) && static_cast<fault>(f) != fault::cuts &&
                              static_cast<fault>(f) != fault::joiners;
      if (!is_allowed) CHECK(r.faults[f] == 0);
      else others += r.faults[f];
    }
  }
  CHECK(others != 0);
}

// ---- two worlds, one result

namespace {

constexpr std::uint32_t trained_workers = 3;
constexpr std::uint32_t trained_servers = 2;

/// The bytes that the weights have in the end, where this is worker 0.
void train(tcp const& transport, std::vector<float>& learned) {
  std::vector<float> init(37);
  for (std::size_t i = 0; i < init.size(); ++i) init[i] = 0.1f * static_cast<float>(i);
  cluster c{transport, bsp{}, dense<float>{.rows = init.size(), .init = init}};
  c.run([&](auto& w) {
    std::vector<float> now(init.size());
    for (int clock = 0; clock < 20; ++clock) {
      w.pull(now);
      std::vector<float> step(init.size());
      for (std::size_t i = 0; i < step.size(); ++i)
        step[i] = static_cast<float>(w.random().uniform() - 0.5) - 0.3f * now[(i + w.rank()) % now.size()];
      w.push(step);
      w.commit();
    }
  });
  if (transport.place.as == net::role::worker && transport.place.rank == 0u) learned = c.parameters();
}

/// `play(place)` for each process of a run.
template <class Play>
void for_each_place(net::deployment place, Play play) {
  place.workers = trained_workers;
  place.servers = trained_servers;
  place.as = net::role::coordinator;
  play(place);
  place.as = net::role::server;
  for (std::uint32_t s = 0; s < trained_servers; ++s) {
    place.rank = s;
    play(place);
  }
  place.as = net::role::worker;
  for (std::uint32_t w = 0; w < trained_workers; ++w) {
    place.rank = w;
    play(place);
  }
}

}  // namespace

TEST_CASE("world: BSP ends with the parameters that it ends with over loopback, bit for bit", "[world][tcp]") {
  std::vector<float> over_sockets;
  {
    net::deployment place;
    place.coordinator = {.host = "127.0.0.1", .port = test::free_port()};
    std::vector<std::thread> threads;
    for_each_place(place, [&](net::deployment const& d) {
      threads.emplace_back([&, d] { train({.place = d, .seed = 5}, over_sockets); });
    });
    for (auto& t : threads) t.join();
  }
  REQUIRE(over_sockets.size() == 37);
  std::vector<float> simulated;
  testing::world w(1);
  net::deployment place;
  place.coordinator = {.host = "127.0.0.1", .port = 29500};
  for_each_place(place, [&](net::deployment const& d) {
    w.add(std::string(net::to_string(d.as)), [&, d](simulated_process& me) {
      train({.place = d, .seed = 5, .network = me.network()}, simulated);
    });
  });
  REQUIRE(w.run(10s));
  CHECK(std::ranges::equal(over_sockets, simulated, [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  }));
}
