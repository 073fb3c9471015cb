// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Updates and answers that a codec writes, in random runs.
#include <rubato/storage/codec.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/random.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/int8_blocks.hpp>
#include <rubato/testing/schedule.hpp>
#include <rubato/transport/simulated.hpp>

#include "seeds.hpp"

using namespace rubato;

namespace {

constexpr std::size_t codec_rows = 9, codec_width = 2, codec_elements = codec_rows * codec_width;

codec_rule draw_codec(random_stream& random) {
  if (random.chance(0.5)) return bfloat16{};
  return int8_blocks{};
}

/// Whole numbers that neither codec keeps; what it takes away of sums of some of these is one that both keep.
double draw_number(random_stream& random) { return static_cast<double>(random.below(4001)) - 2000; }

/// Pushes to all rows or to some, and counts what it pushes.
template <class Worker>
void push_somewhere(Worker& worker, random_stream& random, std::vector<double>& pushed) {
  std::vector<key> some;
  for (std::uint64_t k = 0; k < codec_rows; ++k)
    if (random.chance(0.3)) some.push_back(key{k});
  bool const whole = random.chance(0.3);
  std::vector<double> values(whole ? codec_elements : some.size() * codec_width);
  for (double& x : values) x = draw_number(random);
  for (std::size_t i = 0; i < values.size(); ++i)
    pushed[whole ? i : some[i / codec_width].index() * codec_width + i % codec_width] += values[i];
  if (whole) worker[table<0>].push(values);
  else worker[table<0>].push(some, values);
}

}  // namespace

TEST_CASE("codecs: nothing is lost, workers see what they have pushed, and reads keep the staleness",
          "[simulated][codec]") {
  std::uint64_t bound_was_met = 0;
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const s = testing::random_schedule(seed, {.joins = false, .leaves = false, .crashes = false, .processes = true});
    random_stream random(seed, 0xc0dec);
    std::int64_t const clocks = s.manners.front().clocks;
    auto const bound = static_cast<std::int64_t>(random.below(4));
    rules const protocol = random.chance(0.3) ? rules(bsp{}) : rules(ssp{.staleness = staleness(bound)});
    std::int64_t const behind = protocol.admission.bound().clocks();
    bool const carries = random.chance(0.3);
    double const share = carries && random.chance(0.5) ? random.uniform() / 2 + 0.01 : 1;
    update_filter const filter{
        .threshold = carries && share == 1 ? 500 : 0, .largest = share, .small = small_entries::carry};
    dense<double, sum> table0{.rows = codec_rows, .width = codec_width, .filter = filter};
    table0.codec = {.updates = draw_codec(random), .answers = draw_codec(random)};
    dense<double, sum> table1{.rows = s.workers};  // how many commits each worker has made, which both codecs keep
    table1.codec = {.updates = draw_codec(random), .answers = draw_codec(random)};
    std::vector<double> expected(codec_elements);
    std::string broken;
    cluster c(simulated{.workers = s.workers, .servers = s.servers, .scenario = s.scenario}, protocol, table0, table1);
    c.run([&](auto& worker) {
      random_stream own(seed, worker.rank() + 1);
      std::vector<double> w(codec_elements), counts(s.workers);
      for (std::int64_t clock = 0; clock < clocks; ++clock) {
        if (own.chance(0.7)) {
          worker[table<1>].pull(counts);
          for (std::uint32_t other = 0; other < s.workers; ++other) {
            bool const mine = other == worker.rank();
            auto const least = static_cast<double>(mine ? clock : std::max<std::int64_t>(0, clock - behind));
            if (counts[other] < least || (mine && counts[other] != least))
              broken = "at clock " + std::to_string(clock) + " worker " + std::to_string(worker.rank()) +
                       " reads a count of " + std::to_string(counts[other]) + " of worker " + std::to_string(other);
            bound_was_met += !mine && clock > 0 && counts[other] == least ? 1 : 0;
          }
        }
        if (own.chance(0.3)) worker[table<0>].pull(w);
        push_somewhere(worker, own, expected);
        worker[table<1>].push(std::vector<key>{key{worker.rank()}}, std::vector<double>{1.0});
        worker.step();
      }
      worker[table<0>].push(std::vector<double>(codec_elements));  // the last commit sends what is left, exactly
    });
    REQUIRE(broken == "");
    // What is carried for being small goes with the last commits, too, and these lose what they round away.
    double const lost = carries ? (share == 1 ? 8.0 : 150.0) * s.workers : 0;
    auto const end = c.template parameters<0>();
    for (std::size_t e = 0; e < codec_elements; ++e) REQUIRE(std::abs(end[e] - expected[e]) <= lost);
  }
  if (test::seed_count(200) >= 100) CHECK(bound_was_met > 1000);
}
