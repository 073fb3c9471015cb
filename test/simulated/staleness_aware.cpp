// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/staleness_aware.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/psp.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/testing/schedule.hpp>
#include <rubato/transport/simulated.hpp>

#include "seeds.hpp"

using namespace rubato;

namespace {

/// Who has made a commit, and at which of its clocks.
using commit_name = std::pair<std::uint32_t, std::int64_t>;

/// Whose commits a server has folded, in which order.
struct fold_log {
  bool running = false;  ///< before, merges are only asked what they would say
  std::vector<commit_name> commits{};
};

/// A sum that writes down what it is told of.
struct logged_sum {
  fold_log* log = nullptr;

  [[nodiscard]] double weight(commit_info const& c) const noexcept {
    if (log != nullptr && log->running) log->commits.emplace_back(c.from.value(), c.stamp.value());
    return 1.0;
  }
};
static_assert(merge_policy<logged_sum>);

/// An admission whose workers fetch in each clock, so that what they read is what the server has.
template <admission_policy Admission>
struct fetched : Admission {
  [[nodiscard]] constexpr clock_index cache_need(clock_index, staleness) const noexcept {
    return clock_index::highest();
  }
};
static_assert(admission_policy<fetched<bounded_staleness>> && heeding_admission<fetched<sampled_staleness>>);

/// What is known of a commit when it is made.
struct made {
  std::size_t row;  ///< that it adds 1 to, and no other commit
  double folds;     ///< as many were there when its worker read
};

/// Requires that each commit counts one over its staleness, and says how many were staler than 1. A second table counts
/// the folds, and workers read it first.
std::size_t stale_commits(rules const& protocol, testing::schedule const& s) {
  std::int64_t clocks = 1;
  for (auto const& m : s.manners) clocks = std::max(clocks, m.clocks);
  std::size_t const rows = s.workers_ever() * static_cast<std::size_t>(clocks);
  fold_log log;
  cluster c{simulated{.workers = s.workers, .servers = 1, .scenario = s.scenario}, protocol,
            dense<double>{.rows = rows}, dense<double, logged_sum>{.rows = 1, .merge = {&log}}};
  std::map<commit_name, made> known;
  c.run([&](auto& worker) {
    log.running = true;
    random_stream random(s.seed, worker.rank());
    std::vector<double> folds(1), w(rows), delta(rows);
    for (std::int64_t k = 0; k < s.manners[worker.rank()].clocks; ++k) {
      bool const reads = k == 0 || random.chance(0.8);  // else it computes at what it read before
      if (reads) worker[table<1>].pull(folds);
      std::size_t const row = worker.rank() * static_cast<std::size_t>(clocks) + static_cast<std::size_t>(k);
      known[{static_cast<std::uint32_t>(worker.rank()), worker.clock().value()}] = {row, folds[0]};
      std::ranges::fill(delta, 0.0);
      delta[row] = 1;
      worker.push(delta);
      worker[table<1>].push(std::vector<double>{1});
      worker.step(1.0);
      if (reads) worker.pull(w);  // later, and in the same clock
      worker.step(1.0);
    }
  });
  std::vector<double> const weights = c.template parameters<0>();
  REQUIRE(c.template parameters<1>()[0] == static_cast<double>(log.commits.size()));
  std::size_t stale = 0;
  for (std::size_t i = 0; i < log.commits.size(); ++i) {
    auto const [row, folds] = known.at(log.commits[i]);
    double const staleness = static_cast<double>(i) - folds;
    INFO("worker " << log.commits[i].first << " at clock " << log.commits[i].second << ", staleness " << staleness);
    REQUIRE(staleness >= 0);
    REQUIRE(weights[row] == Approx(1 / std::max(1.0, staleness)).epsilon(1e-12));
    stale += staleness > 1 ? 1 : 0;
  }
  return stale;
}

/// Requires the same of workers of different speeds whose commits are held back, each with a row of its own in the
/// second table. `folds_seen(rows, worker)`: the folds that a read of these shows. Returns how many were staler than 1.
template <class Visibility, class FoldsSeen>
std::size_t stale_commits_held_back(Visibility visibility, std::uint64_t seed, FoldsSeen folds_seen) {
  constexpr std::uint32_t workers = 4;
  constexpr std::int64_t clocks = 8;
  constexpr std::size_t rows = workers * static_cast<std::size_t>(clocks);
  random_stream random(seed, 1);
  simulated transport{.workers = workers, .servers = 1};
  for (std::uint32_t w = 0; w < workers; ++w) transport.scenario.speed.slowness.push_back(1 + random.uniform() * 5);
  staleness const bound{1 + static_cast<std::int64_t>(random.below(3))};  // with 0 a clock's commits are one fold
  auto const protocol = with(rules(staleness_aware{}), fetched<bounded_staleness>{{bound}}, visibility);
  fold_log log;
  cluster c{transport, protocol, dense<double>{.rows = rows}, dense<double, logged_sum>{.rows = workers, .merge = {&log}}};
  std::map<commit_name, made> known;
  c.run([&](auto& worker) {
    log.running = true;
    std::vector<double> folded(workers);
    for (std::int64_t k = 0; k < clocks; ++k) {
      worker[table<1>].pull(folded);
      std::size_t const row = worker.rank() * static_cast<std::size_t>(clocks) + static_cast<std::size_t>(k);
      known[{static_cast<std::uint32_t>(worker.rank()), k}] = {row, folds_seen(folded, worker.rank())};
      std::vector<double> delta(rows), one(workers);
      delta[row] = one[worker.rank()] = 1;
      worker.push(delta);
      worker[table<1>].push(one);
      worker.step();
    }
  });
  std::vector<double> const weights = c.template parameters<0>();
  REQUIRE(log.commits.size() == rows);
  std::size_t stale = 0;
  for (std::size_t i = 0; i < log.commits.size(); ++i) {
    auto const [row, folds] = known.at(log.commits[i]);
    double const staleness = static_cast<double>(i) - folds;
    INFO("worker " << log.commits[i].first << " at clock " << log.commits[i].second << ", staleness " << staleness);
    REQUIRE(weights[row] == Approx(1 / std::max(1.0, staleness)).epsilon(1e-12));
    stale += staleness > 1 ? 1 : 0;
  }
  return stale;
}

/// Commits wait until all workers have made theirs of the clock.
struct whole_clocks {
  static constexpr bool holds_back = true;
  [[nodiscard]] constexpr clock_index horizon(fold_window const& w) const noexcept { return w.c_min; }
};
static_assert(visibility_policy<whole_clocks>);

}  // namespace

TEST_CASE("Staleness-aware rates: an update that is held back counts by the folds there are when it is folded",
          "[simulated][rounds]") {
  std::size_t strictly = 0, whole = 0;
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    strictly += stale_commits_held_back(strict{}, seed, [](std::vector<double> const& rows, std::size_t) {
      return std::accumulate(rows.begin(), rows.end(), 0.0);
    });
    // Of the own commits some are not folded; of the others' as many are as of one's own.
    whole += stale_commits_held_back(whole_clocks{}, seed, [](std::vector<double> const& rows, std::size_t self) {
      return static_cast<double>(rows.size()) * rows[self == 0 ? 1 : 0];
    });
  }
  if (test::seed_count(200) >= 100) CHECK((strictly > 1000 && whole > 1000));
}

TEST_CASE("Staleness-aware rates: an update counts one over the folds since its worker read, whoever is waited for",
          "[simulated][rounds]") {
  std::size_t nobody = 0, slowest = 0, sample = 0;
  auto const rates = with(staleness_aware{}, every{2});
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const s = testing::random_schedule(seed);
    staleness const bound{static_cast<std::int64_t>(seed % 4)};
    nobody += stale_commits(rates, s);
    slowest += stale_commits(with(rates, fetched<bounded_staleness>{{bound}}), s);
    sample += stale_commits(with(rates, fetched<sampled_staleness>{{{}, bound, 1, s.workers, seed}}), s);
  }
  if (test::seed_count(200) >= 100) CHECK((nobody > 1000 && slowest > 1000 && sample > 1000));
}
