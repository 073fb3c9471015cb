// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "simulated/rounds.hpp"

#include <catch2/catch.hpp>

#include <cmath>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/fed_avg.hpp>
#include <rubato/protocol/fed_buff.hpp>
#include <rubato/protocol/k_async.hpp>
#include <rubato/protocol/k_sync.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/testing/schedule.hpp>
#include <rubato/transport/simulated.hpp>

#include "seeds.hpp"

using namespace rubato;

namespace {

test::shard_setting drawn_setting(random_stream& random, bool losses) {
  return {.workers = 1 + static_cast<std::uint32_t>(random.below(6)),
          .servers = 1 + static_cast<std::uint32_t>(random.below(4)),
          .clocks = 1 + static_cast<std::int64_t>(random.below(8)),
          .leave = random.chance(0.5),
          .losses = losses && random.chance(0.5)};
}

std::uint32_t up_to(random_stream& random, std::uint32_t most) {
  return 1 + static_cast<std::uint32_t>(random.below(most));
}

/// Runs `check(random, seed)` for many seeds.
template <class Check>
void for_each_seed(std::uint64_t usual, Check check) {
  for (std::uint64_t i = 0; i < test::seed_count(usual); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    random_stream random(seed, 0x70a4d5);
    check(random, seed);
  }
}

std::uint64_t commits_of(test::rounds_world::folds const& folded) {
  std::uint64_t all = 0;
  for (auto const& [round, from] : folded) all += from.size();
  return all;
}

/// Without losses: all that was sent is folded or late, and servers have made as many rounds.
void check_all_counted(test::rounds_world const& world, test::shard_setting const& setting, bool servers_agree) {
  for (std::uint32_t s = 0; s < setting.servers; ++s) {
    REQUIRE(world.counters(s).commits == commits_of(world.folded(s)) + world.counters(s).late);
    REQUIRE(world.counters(s).rounds == world.folded(s).size());
    if (servers_agree) REQUIRE(world.counters(s).commits == world.counters(0).commits);
  }
}

/// Whoever takes part in a round was drawn for it, or for one since its last commit that went on without it.
void check_drawn(test::rounds_world const& world, sampled const& draw, std::uint32_t workers) {
  for (std::uint32_t w = 0; w < workers; ++w) {
    std::int64_t next = 0;
    for (std::int64_t const at : world.made(w)) {
      bool drawn = false;
      for (; next <= at; ++next) drawn = drawn || draw.takes_part(worker_id{w}, version_index{next});
      REQUIRE(drawn);
    }
  }
}

}  // namespace

TEST_CASE("K-sync in any order: of a round at most M - K updates are left out, and nobody waits for ever",
          "[simulated][rounds]") {
  std::uint64_t late = 0, rounds = 0;
  for_each_seed(2000, [&](random_stream& random, std::uint64_t seed) {
    auto const setting = drawn_setting(random, true);
    std::uint32_t const k = up_to(random, setting.workers + 1);
    test::rounds_world world(each_round{}, quorum{.count = k}, setting, seed);
    REQUIRE(world.run() == "");
    for (std::uint32_t s = 0; s < setting.servers; ++s) {
      for (auto const& [round, from] : world.folded(s)) {
        std::size_t const computed = world.computed(s).at(round);  // of these K are in, or all that there were
        REQUIRE(computed <= setting.workers);
        if (!setting.losses) REQUIRE(from.size() == std::min<std::size_t>(k, computed));
      }
      late += world.counters(s).late;
      rounds += world.counters(s).rounds;
    }
    if (!setting.losses) check_all_counted(world, setting, true);
  });
  if (test::seed_count(2000) >= 100) CHECK((late > 0 && rounds > late));
}

TEST_CASE("K-batch-sync in any order: rounds are of K updates that were computed at them",
          "[simulated][rounds]") {
  for_each_seed(500, [&](random_stream& random, std::uint64_t seed) {
    auto const setting = drawn_setting(random, true);
    std::uint32_t const k = up_to(random, 2 * setting.workers);
    test::rounds_world world(unbounded{}, quorum{.count = k}, setting, seed);
    REQUIRE(world.run() == "");
    if (!setting.losses) check_all_counted(world, setting, true);
  });
}

TEST_CASE("K-async in any order: nothing is left out, and nobody waits for ever", "[simulated][rounds]") {
  for_each_seed(2000, [&](random_stream& random, std::uint64_t seed) {
    auto const setting = drawn_setting(random, true);
    std::uint32_t const k = up_to(random, setting.workers + 1);
    test::rounds_world world(each_round{}, buffered{.count = k}, setting, seed);
    REQUIRE(world.run() == "");
    for (std::uint32_t s = 0; s < setting.servers; ++s) REQUIRE(world.counters(s).late == 0);
    if (!setting.losses) check_all_counted(world, setting, true);
  });
}

TEST_CASE("FedBuff in any order: each fold but the last has K updates", "[simulated][rounds]") {
  for_each_seed(1000, [&](random_stream& random, std::uint64_t seed) {
    auto const setting = drawn_setting(random, false);
    std::uint32_t const k = up_to(random, 3 * setting.workers);
    test::rounds_world world(unbounded{}, buffered{.count = k}, setting, seed);
    REQUIRE(world.run() == "");
    check_all_counted(world, setting, true);
    for (std::uint32_t s = 0; s < setting.servers; ++s) {
      auto const& folded = world.folded(s);
      for (auto const& [round, from] : folded)
        REQUIRE((from.size() == k || round == static_cast<std::int64_t>(folded.size()) - 1));
    }
  });
}

TEST_CASE("Of more workers drawn than a round needs, in any order, nobody waits for ever, nor takes part undrawn",
          "[simulated][rounds]") {
  for_each_seed(3000, [&](random_stream& random, std::uint64_t seed) {
    auto const setting = drawn_setting(random, true);
    std::uint32_t const clients = up_to(random, setting.workers), k = up_to(random, clients);
    sampled const draw{{}, clients, setting.workers, seed};
    if (random.chance(0.5)) {
      test::rounds_world world(draw, quorum{.count = k}, setting, seed);
      REQUIRE(world.run() == "");
      check_drawn(world, draw, setting.workers);
      if (!setting.losses) check_all_counted(world, setting, true);
    } else {
      test::rounds_world world(draw, buffered{.count = k}, setting, seed);
      REQUIRE(world.run() == "");
      check_drawn(world, draw, setting.workers);
      if (!setting.losses) check_all_counted(world, setting, true);
    }
  });
}

TEST_CASE("FedAvg in any order: a round has the workers that were drawn for it", "[simulated][rounds]") {
  for_each_seed(2000, [&](random_stream& random, std::uint64_t seed) {
    auto const setting = drawn_setting(random, true);
    std::uint32_t const clients = up_to(random, setting.workers);
    sampled const draw{{}, clients, setting.workers, seed};
    test::rounds_world world(draw, quorum{.count = clients}, setting, seed);
    if (!setting.losses)
      world.on_fold = [&](shard_control const& c, version_index round, std::set<std::uint32_t> const& from) {
        for (std::uint32_t w = 0; w < setting.workers; ++w)
          if (c.workers().contains(worker_id{w}) && draw.takes_part(worker_id{w}, round) && !from.contains(w))
            return "a round goes on without worker " + std::to_string(w);
        return std::string();
      };
    REQUIRE(world.run() == "");
    for (std::uint32_t s = 0; s < setting.servers; ++s)
      for (auto const& [round, from] : world.folded(s)) {
        std::set<std::uint32_t> const whom(from.begin(), from.end());
        REQUIRE(whom.size() == from.size());
        for (std::uint32_t const w : whom) REQUIRE(draw.takes_part(worker_id{w}, version_index{round}));
      }
    if (!setting.losses) {
      check_all_counted(world, setting, true);
      for (std::uint32_t s = 0; s < setting.servers; ++s) REQUIRE(world.counters(s).late == 0);
    }
  });
}

namespace {

/// What a run on a random schedule of the simulator ends with.
struct ending {
  std::vector<double> w;
  run_report report;
};

ending simulate(rules const& protocol, testing::schedule const& s) {
  cluster c{simulated{.workers = s.workers, .servers = s.servers, .scenario = s.scenario}, protocol,
            dense<double>{.rows = 8}};
  run_report report = c.run([&s](auto& worker) {
    std::vector<double> w(8), delta(8);
    for (std::int64_t i = 0; i < s.manners[worker.rank()].clocks; ++i) {
      worker.pull(w);
      for (std::size_t j = 0; j < w.size(); ++j) delta[j] = 0.25 * (static_cast<double>(worker.rank() + j) - w[j]);
      worker.push(delta);
      worker.step();
    }
  });
  return {c.parameters(), std::move(report)};
}

}  // namespace

TEST_CASE("K-sync and K-async of all M workers are BSP bit for bit", "[simulated][rounds]") {
  for_each_seed(200, [&](random_stream&, std::uint64_t seed) {
    auto s = testing::random_schedule(seed, {.joins = false, .leaves = false, .crashes = false});
    for (auto& m : s.manners) m.clocks = s.manners.front().clocks;
    auto const barrier = simulate(bsp{}, s);
    REQUIRE(simulate(k_sync{.k = s.workers}, s).w == barrier.w);
    REQUIRE(simulate(k_async{.k = s.workers}, s).w == barrier.w);
    REQUIRE(simulate(fed_avg{.clients = s.workers, .of = s.workers}, s).w == barrier.w);
  });
}

TEST_CASE("Rounds outlive joins, leaves and losses in random runs", "[simulated][rounds]") {
  for_each_seed(300, [&](random_stream& random, std::uint64_t seed) {
    auto const s = testing::random_schedule(seed);
    std::uint32_t const k = up_to(random, s.workers);
    for (rules const& p : {rules(k_sync{.k = k}), rules(k_async{.k = k}), rules(with(k_sync{.k = k}, unbounded{})),
                           rules(fed_avg{.clients = k, .of = s.workers, .seed = seed}), rules(fed_buff{.k = k})}) {
      INFO(p.name << " with K = " << k);
      auto const end = simulate(p, s);
      for (double const w : end.w) REQUIRE(std::abs(w) < 100);
      if (end.report.updates != 0) REQUIRE(end.report.servers.rounds != 0);
    }
  });
}
