// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "simulated/admissions.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/dssp.hpp>
#include <rubato/protocol/psp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/vap.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/testing/schedule.hpp>
#include <rubato/transport/simulated.hpp>

#include "seeds.hpp"

using namespace rubato;

namespace {

using moment = test::admission_world::moment;

test::shard_setting drawn_setting(random_stream& random) {
  return {.workers = 1 + static_cast<std::uint32_t>(random.below(6)),
          .servers = 1 + static_cast<std::uint32_t>(random.below(3)),
          .clocks = 1 + static_cast<std::int64_t>(random.below(10)),
          .leave = random.chance(0.5),
          .losses = random.chance(0.3),
          .joins = random.chance(0.3)};
}

/// Runs `check(random, seed)` for many seeds.
template <class Check>
void for_each_seed(std::uint64_t usual, Check check) {
  for (std::uint64_t i = 0; i < test::seed_count(usual); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    random_stream random(seed, 0xad5e71);
    check(random, seed);
  }
}

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
      for (std::size_t j = 0; j < w.size(); ++j) delta[j] = 0.05 * (static_cast<double>(worker.rank() + j) - w[j]);
      worker.push(delta);
      worker.step();
    }
  });
  return {c.parameters(), std::move(report)};
}

}  // namespace

TEST_CASE("PSP in any order: nobody goes on before those in its sample are there, nor waits for others",
          "[simulated][admissions]") {
  std::uint64_t waited = 0, went_on = 0;
  for_each_seed(2000, [&](random_stream& random, std::uint64_t seed) {
    auto const setting = drawn_setting(random);
    sampled_staleness const p{{}, staleness{static_cast<std::int64_t>(random.below(4))},
                              static_cast<std::uint32_t>(random.below(setting.workers)), setting.workers, seed};
    test::admission_world world(p, setting, seed, [&](auto const& members, std::uint32_t reader, moment now) {
      if (now == moment::any) return std::string();
      bool const let_in = now == moment::goes_on;
      clock_index const clock{members[reader].reads_at};
      bool all_there = true;
      for (std::uint32_t w = 0; w < members.size(); ++w)
        if (w != reader && members[w].live && p.heeds(worker_id{reader}, worker_id{w}, clock))
          all_there = all_there && clock_index{members[w].clock} >= p.need(clock, p.bound());
      return std::string(all_there == let_in ? "" : let_in ? "is let in too early" : "waits for nobody");
    });
    REQUIRE(world.run() == "");
    waited += world.waited();
    went_on += world.went_on();
  });
  if (std::uint64_t const n = test::seed_count(2000); n >= 100) CHECK((waited > n && went_on > waited));
}

TEST_CASE("PSP with a sample of all others is SSP, bit for bit", "[simulated][admissions]") {
  for_each_seed(200, [&](random_stream&, std::uint64_t seed) {
    auto const s = testing::random_schedule(seed);
    auto const all = simulate(ssp{.staleness = 2}, s);
    auto const sample = simulate(psp{.staleness = 2, .sample = s.workers, .of = s.workers}, s);
    REQUIRE(sample.w == all.w);
    REQUIRE(sample.report.elapsed == all.report.elapsed);
    REQUIRE(sample.report.total().requests == all.report.total().requests);
  });
}

TEST_CASE("DSSP in any order: nobody is more than s_U ahead, nor waits within s_L", "[simulated][admissions]") {
  std::uint64_t beyond = 0, waited = 0;
  for_each_seed(2000, [&](random_stream& random, std::uint64_t seed) {
    auto setting = drawn_setting(random);
    setting.clocks *= 3;
    staleness const low = static_cast<std::int64_t>(random.below(3));
    staleness const high = low.clocks() + static_cast<std::int64_t>(random.below(5));
    predicted_staleness const p{low, high};
    test::admission_world world(p, setting, seed, [&](auto const& members, std::uint32_t reader, moment now) {
      if (now == moment::any) return std::string();
      clock_index const clock{members[reader].reads_at};
      clock_index c_min = clock;
      for (auto const& m : members)
        if (m.live) c_min = std::min(c_min, clock_index{m.clock});
      if (now == moment::waits) return std::string(c_min < clock - low ? "" : "waits within s_L");
      beyond += c_min < clock - low ? 1 : 0;
      return std::string(c_min >= clock - high ? "" : "is beyond s_U");
    });
    REQUIRE(world.run() == "");
    waited += world.waited();
  });
  if (std::uint64_t const n = test::seed_count(2000); n >= 100) CHECK((beyond > n / 2 && waited > n / 2));
}

TEST_CASE("DSSP with both bounds alike is SSP, bit for bit", "[simulated][admissions]") {
  for_each_seed(200, [&](random_stream&, std::uint64_t seed) {
    auto const s = testing::random_schedule(seed);
    auto const one = simulate(ssp{.staleness = 2}, s);
    auto const two = simulate(dssp{.low = 2, .high = 2}, s);
    REQUIRE(two.w == one.w);
    REQUIRE(two.report.elapsed == one.report.elapsed);
    REQUIRE(two.report.total().requests == one.report.total().requests);
  });
}

TEST_CASE("DSSP outlives joins, leaves and losses in random runs", "[simulated][admissions]") {
  for_each_seed(200, [&](random_stream&, std::uint64_t seed) {
    auto const end = simulate(dssp{.low = 1, .high = 4}, testing::random_schedule(seed));
    for (double const w : end.w) REQUIRE(std::abs(w) < 100);
  });
}

namespace {

/// Of a worker's changes those that somebody does not know of who computes.
double unseen(test::admission_world::members const& all, std::uint32_t worker) {
  std::uint64_t known = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t w = 0; w < all.size(); ++w)
    if (w != worker && all[w].computes) known = std::min(known, all[w].knows);
  double sum = 0;
  for (auto const& [fold, change] : all[worker].changes) sum += fold > known ? change : 0;
  return sum;
}

}  // namespace

TEST_CASE("VAP in any order: what somebody has not seen is within the limit, but for one commit; nobody waits for ever",
          "[simulated][admissions]") {
  std::uint64_t waited = 0, went_on = 0;
  for_each_seed(2000, [&](random_stream& random, std::uint64_t seed) {
    auto setting = drawn_setting(random);
    setting.servers = 1;
    setting.clocks *= 2;
    bounded_value const p{{}, 2 * random.uniform()};
    double constexpr rounding = 1e-9;
    test::admission_world world(p, setting, seed, [&](auto const& members, std::uint32_t w, moment now) {
      auto const& me = members[w];
      double const mine = unseen(members, w), limit = p.limit(clock_index{me.reads_at});
      if (now == moment::goes_on) return std::string(mine <= limit + rounding ? "" : "has changed too much to go on");
      if (now == moment::waits)
        return std::string(mine > limit - rounding ? "" : "waits, though it is within the limit");
      if (me.let_in_at < 0) return std::string();
      double const last = me.clock > me.let_in_at ? me.changes.back().second : 0;
      double const most = p.limit(clock_index{me.let_in_at}) + last;
      return std::string(mine <= most + rounding ? "" : "has changed more than the limit and a commit");
    });
    REQUIRE(world.run() == "");
    waited += world.waited();
    went_on += world.went_on();
  });
  if (std::uint64_t const n = test::seed_count(2000); n >= 100) CHECK((waited > n && went_on > waited));
}

TEST_CASE("VAP outlives joins, leaves and losses in random runs, and waits less the more may be unseen",
          "[simulated][admissions]") {
  duration much{}, little{}, never{};
  for_each_seed(200, [&](random_stream&, std::uint64_t seed) {
    auto s = testing::random_schedule(seed);
    s.servers = 1;
    auto const run = [&](double first) {
      auto const end = simulate(vap{.first = first}, s);
      for (double const w : end.w) REQUIRE(std::abs(w) < 100);
      return end.report.total().wait;
    };
    much += run(1e9);
    little += run(0.5);
    never += run(0);
  });
  CHECK(much == duration::zero());
  if (test::seed_count(200) >= 100) CHECK((duration::zero() < little && little < never));
}

TEST_CASE("PSP outlives joins, leaves and losses in random runs, and waits less the smaller its sample",
          "[simulated][admissions]") {
  duration none{}, few{}, all{};
  for_each_seed(200, [&](random_stream&, std::uint64_t seed) {
    auto const s = testing::random_schedule(seed);
    auto const run = [&](std::uint32_t sample) {
      auto const end = simulate(psp{.staleness = 1, .sample = sample, .of = s.workers, .seed = seed}, s);
      for (double const w : end.w) REQUIRE(std::abs(w) < 100);
      return end.report.total().wait;
    };
    none += run(0);
    few += run(1);
    all += run(s.workers);
  });
  CHECK(none == duration::zero());
  if (test::seed_count(200) >= 100) CHECK((duration::zero() < few && few < all));
}
