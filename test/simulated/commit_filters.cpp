// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What commits send and what they carry, in random runs.
#include "simulated/commit_filters.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/random.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/gaia.hpp>
#include <rubato/protocol/lag.hpp>
#include <rubato/protocol/streaming_diloco.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/testing/schedule.hpp>
#include <rubato/transport/simulated.hpp>

#include "seeds.hpp"

using namespace rubato;

namespace {

constexpr std::size_t filtered_rows = 9, width = 2, elements = filtered_rows * width;

/// Runs `check(random, schedule)` for many seeds.
template <class Check>
void for_each_schedule(std::uint64_t usual, bool leaves, Check check) {
  for (std::uint64_t i = 0; i < test::seed_count(usual); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto s = testing::random_schedule(seed, {.joins = false, .leaves = leaves, .crashes = false});
    if (!leaves)
      for (auto& m : s.manners) m.clocks = s.manners.front().clocks;
    random_stream random(seed, 0xf117e5);
    check(random, s);
  }
}

template <class P>
auto cluster_of(P const& protocol, testing::schedule const& s, std::span<double const> init) {
  return cluster{simulated{.workers = s.workers, .servers = s.servers, .scenario = s.scenario}, protocol,
                 dense<double, merge_of_protocol, testing::scattered>{
                     .rows = filtered_rows, .width = width, .init = init, .partition = {s.seed}}};
}

/// Sums of these are exact, in any order.
double draw(random_stream& random) { return static_cast<double>(random.below(33)) / 16 - 1; }

/// Reads all, some or nothing, and pushes all or some; tells the watch.
template <class Worker>
void move_somewhere(Worker& worker, test::filter_watch::worker& seen, random_stream& random,
                    std::vector<double>& pushed) {
  std::vector<double> values(elements);
  std::vector<key> some;
  for (std::uint64_t k = 0; k < filtered_rows; ++k)
    if (random.chance(0.4)) some.push_back(key{k});
  auto const on_some = [&](std::vector<double>& to, auto add) {
    for (std::size_t i = 0; i < some.size() * width; ++i)
      add(to[some[i / width].index() * width + i % width], values[i]);
  };
  if (random.chance(0.4)) {
    worker.pull(seen.read);
  } else if (random.chance(0.5)) {
    values.resize(some.size() * width);
    worker.pull(some, values);
    on_some(seen.read, [](double& to, double x) { to = x; });
  }
  bool const whole = random.chance(0.5);
  values.resize(whole ? elements : some.size() * width);
  for (double& x : values) x = random.chance(0.2) ? 0 : draw(random) / (random.chance(0.5) ? 64 : 1);
  if (whole) {
    worker.push(values);
    for (std::size_t e = 0; e < elements; ++e) pushed[e] += values[e], seen.pending[e] += values[e];
  } else {
    worker.push(some, values);
    auto const add = [](double& to, double x) { to += x; };
    on_some(pushed, add);
    on_some(seen.pending, add);
  }
}

}  // namespace

TEST_CASE("Gaia: what is not sent is not above the bound, and what is sent and carried is what was pushed",
          "[simulated][filter]") {
  std::uint64_t kept = 0, sent = 0;
  for_each_schedule(200, true, [&](random_stream& random, testing::schedule const& s) {
    auto const watch = std::make_shared<test::filter_watch>(s.workers, filtered_rows, width);
    double const v = random.chance(0.2) ? 0 : random.uniform();
    watch->on_send = [&](filter_point at, std::size_t e, double before, double goes, double stays) {
      watch->expect(goes + stays == before && (goes == 0 || stays == 0), "an entry is sent in part");
      double const w = watch->all[at.worker.index()].read[e];
      double const share = std::abs(before / w), bound = v / std::sqrt(static_cast<double>(at.clock.value() + 1));
      if (stays != 0) watch->expect(share <= bound * (1 + 1e-9), "an entry above the bound is not sent");
      if (goes != 0) watch->expect(!(share < bound * (1 - 1e-9)), "an entry below the bound is sent");
      (stays != 0 ? kept : sent) += stays != 0 || goes != 0 ? 1 : 0;
    };
    test::watched_protocol<gaia> const p{
        {.staleness = staleness{static_cast<std::int64_t>(random.below(4))}, .significant = {.threshold = v}}, watch};
    std::vector<double> init(elements), expected;
    for (double& w : init) w = random.chance(0.2) ? 0 : draw(random);
    expected = init;
    auto c = cluster_of(p, s, init);
    c.run([&](auto& worker) {
      random_stream own(s.seed, worker.rank() + 1);
      for (std::int64_t i = 0; i < s.manners[worker.rank()].clocks; ++i) {
        move_somewhere(worker, watch->all[worker.rank()], own, expected);
        worker.step();
      }
      worker.push(std::vector<double>(elements));  // so that the body's last commit sends what was carried
    });
    REQUIRE(watch->broken == "");
    REQUIRE(c.parameters() == expected);
  });
  if (test::seed_count(200) >= 100) CHECK((kept > 1000 && sent > 1000));
}

TEST_CASE("Streaming DiLoCo: each row is sent once in H steps, workers agree on the fragment that was synchronized, "
          "and no other row moves",
          "[simulated][filter]") {
  for_each_schedule(200, false, [&](random_stream& random, testing::schedule const& s) {
    auto const watch = std::make_shared<test::filter_watch>(s.workers, filtered_rows, width);
    std::int64_t const fragments = 1 + static_cast<std::int64_t>(random.below(5));
    std::int64_t const steps = fragments + static_cast<std::int64_t>(random.below(7));
    std::map<std::pair<std::uint64_t, std::uint32_t>, std::int64_t> sent_at;  // by row and worker, in local steps
    watch->on_row = [&](filter_point at, key row) {
      std::int64_t const now = watch->all[at.worker.index()].steps;
      auto const [before, first] = sent_at.try_emplace({row.value(), at.worker.value()}, now);
      watch->expect(first ? now <= steps : now - before->second == steps, "a row is not sent once in H steps");
      before->second = now;
    };
    test::watched_protocol<streaming_diloco> const p{{.steps = steps, .fragments = fragments}, watch};
    std::vector<double> init(elements);
    for (double& w : init) w = draw(random);
    std::vector<double> agreed = init;                  // what each row was when it was synchronized last
    std::int64_t const turns = fragments * (1 + static_cast<std::int64_t>(random.below(3)));
    std::map<std::int64_t, std::vector<std::vector<double>>> reads;  // by clock and worker
    auto c = cluster_of(p, s, init);
    c.run([&](auto& worker) {
      random_stream own(s.seed, worker.rank() + 1);
      auto& mine = watch->all[worker.rank()];
      std::vector<double> w(elements), delta(elements), pending(elements);
      while (worker.clock().value() < turns) {
        worker.pull(w);
        for (std::size_t e = 0; e < elements; ++e) pending[e] += delta[e] = draw(own);
        worker.push(delta);
        ++mine.steps;
        std::int64_t const clock = worker.clock().value();
        if (!worker.step()) continue;
        for (std::size_t e = 0; e < elements; ++e)
          if (static_cast<std::int64_t>(e / width) % fragments == clock % fragments) pending[e] = 0;
        worker.pull(w);
        for (std::size_t e = 0; e < elements; ++e) w[e] -= pending[e];
        reads[clock].push_back(w);
      }
    });
    REQUIRE(watch->broken == "");
    for (auto const& [clock, of_workers] : reads) {
      REQUIRE(of_workers.size() == s.workers);
      for (std::size_t e = 0; e < elements; ++e) {
        bool const synchronized = static_cast<std::int64_t>(e / width) % fragments == clock % fragments;
        if (synchronized) agreed[e] = of_workers[0][e];
        for (auto const& w : of_workers) REQUIRE(std::abs(w[e] - agreed[e]) < 1e-9);
      }
    }
  });
}

TEST_CASE("LAG: what is pushed after the last step counts as any other update", "[simulated][filter]") {
  for (std::int64_t const pushes : {1, 3}) {
    cluster c{simulated{.workers = 2}, lag{}, dense<double>{.rows = 2}};
    auto const body = [pushes](auto& worker) {
      std::vector<double> w(2);
      for (std::int64_t i = 0; i < pushes; ++i) {
        if (i > 0) worker.step();
        worker.pull(w);
        worker.push(std::vector<double>{1.0, 2.0 * worker.rank()});
      }
    };
    c.run(body);
    CHECK(c.parameters() == std::vector<double>(2, static_cast<double>(pushes)));
    c.run(body);  // nothing goes on from the run before
    CHECK(c.parameters() == std::vector<double>(2, static_cast<double>(2 * pushes)));
  }
}

TEST_CASE("LAG: nothing of a worker's updates stays when it ends before the others, or comes after them",
          "[simulated][filter]") {
  auto const zeros = [](auto& worker) {
    for (int i = 0; i < 3; ++i) {
      worker.push(std::vector<double>{0.0});
      worker.step();
    }
  };
  SECTION("it ends") {
    cluster c{simulated{.workers = 2}, lag{.trigger = 0}, dense<double>{.rows = 1}};
    c.run([](auto& worker) {
      std::vector<double> w(1);
      for (int i = 0; i < (worker.rank() == 0 ? 2 : 6); ++i) {
        worker.pull(w);
        worker.push(std::vector<double>{worker.rank() == 1 && i >= 2 ? 3.0 : 1.0});
        worker.step();
      }
    });
    CHECK(c.parameters()[0] == 1 + 1 + 3.0 / 2 + 3 + 3 + 3);  // in the third clock it takes back what it has sent
    c.run(zeros);
    CHECK(c.parameters()[0] == 12.5);
  }
  SECTION("it comes") {
    sim::scenario const joined{.joins = {{.at = std::chrono::milliseconds(3)}}};
    cluster c{simulated{.workers = 1, .scenario = joined}, lag{.trigger = 0}, dense<double>{.rows = 1}};
    std::uint64_t of_joiner = 0;
    c.run([&](auto& worker) {
      std::vector<double> w(1);
      while (worker.clock() < clock_index{12}) {
        worker.pull(w);
        CHECK(w[0] == static_cast<double>(worker.clock().value()));
        of_joiner += worker.rank() == 1;
        worker.push(std::vector<double>{1.0});
        worker.step(1000);
      }
    });
    CHECK((of_joiner > 0 && of_joiner < 12));
    CHECK(c.parameters()[0] == 12);
  }
}

TEST_CASE("LAG: servers step with the mean of what the workers have sent last, which is taken back in the end",
          "[simulated][filter]") {
  std::uint64_t uploads = 0, left_out = 0;
  for_each_schedule(200, false, [&](random_stream& random, testing::schedule const& s) {
    auto const watch = std::make_shared<test::filter_watch>(s.workers, filtered_rows, width);
    std::vector<std::vector<double>> last(s.workers, std::vector<double>(elements));  // the updates that were sent
    watch->on_send = [&](filter_point at, std::size_t e, double before, double goes, double stays) {
      watch->expect(stays == 0, "something is carried");
      std::uint32_t const w = at.worker.value();
      watch->expect(goes == 0 || std::abs(last[w][e] + goes - before) < 1e-12, "not the difference is sent");
      last[w][e] += goes;
    };
    std::int64_t const clocks = 3 + static_cast<std::int64_t>(random.below(12));
    double const trigger = random.chance(0.2) ? 0 : random.uniform();
    test::watched_protocol<lag> const p{{.window = 1 + static_cast<std::int64_t>(random.below(10)), .trigger = trigger},
                                        watch};
    std::vector<double> init(elements);
    for (double& w : init) w = draw(random);
    std::map<std::int64_t, std::vector<double>> reads;  // by clock
    std::map<std::int64_t, std::vector<double>> means;  // of `last` after the commit of a clock
    auto c = cluster_of(p, s, init);
    auto const body = [&](auto& worker) {
      auto& mine = watch->all[worker.rank()];
      std::vector<double> delta(elements);
      for (std::int64_t k = 0; k < clocks; ++k) {
        worker.pull(mine.read);
        reads[k] = mine.read;
        for (std::size_t e = 0; e < elements; ++e)
          mine.pending[e] = delta[e] = 0.3 * (static_cast<double>((e + worker.rank()) % 5) - mine.read[e]);
        worker.push(delta);
        worker.step();
        auto& mean = means.try_emplace(k, elements).first->second;
        double moved = 0;
        for (std::size_t e = 0; e < elements; ++e) mean[e] += last[worker.rank()][e] / s.workers;
        for (std::size_t e = 0; e < elements; ++e) moved += std::abs(last[worker.rank()][e] - delta[e]);
        ++(moved < 1e-12 ? uploads : left_out);
      }
    };
    c.run(body);
    REQUIRE(watch->broken == "");
    for (std::int64_t k = 0; k + 1 < clocks; ++k)
      for (std::size_t e = 0; e < elements; ++e)
        REQUIRE(std::abs(reads[k + 1][e] - reads[k][e] - means[k][e]) < 1e-9);
    auto const end = c.parameters();
    for (std::size_t e = 0; e < elements; ++e)
      REQUIRE(std::abs(end[e] - reads[clocks - 1][e] - means[clocks - 1][e]) < 1e-9);
    watch->all.assign(s.workers, test::filter_watch(1, filtered_rows, width).all.front());
    for (auto& of_worker : last) of_worker.assign(elements, 0);
    c.run([](auto& worker) {  // nothing goes on from the run before
      worker.push(std::vector<double>(elements));
      worker.step();
    });
    REQUIRE(watch->broken == "");
    for (std::size_t e = 0; e < elements; ++e) REQUIRE(std::abs(c.parameters()[e] - end[e]) < 1e-9);
    if (trigger == 0) {
      auto plain = cluster_of(bsp{}, s, init);
      plain.run([&](auto& worker) {
        std::vector<double> w(elements), delta(elements);
        for (std::int64_t k = 0; k < clocks; ++k) {
          worker.pull(w);
          for (std::size_t e = 0; e < elements; ++e)
            delta[e] = 0.3 * (static_cast<double>((e + worker.rank()) % 5) - w[e]);
          worker.push(delta);
          worker.step();
        }
      });
      for (std::size_t e = 0; e < elements; ++e) REQUIRE(std::abs(plain.parameters()[e] - end[e]) < 1e-9);
    }
  });
  if (test::seed_count(200) >= 100) CHECK((uploads > 1000 && left_out > 1000));
}
