// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Commit pacing in virtual time: the invariants of rules §5 after every event of random runs.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/random.hpp>
#include <rubato/protocol/ada_comm.hpp>
#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/fixed_ada_comm.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/testing/schedule.hpp>
#include <rubato/transport/simulated.hpp>

#include "simulated/family.hpp"
#include "simulated/quiet.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t rows = 6;
using counts = dense<std::int64_t, merge_of_protocol, testing::scattered>;

// ---- what a run is

enum class losses : std::uint8_t { none, evaluated, reported };

/// All that decides a run.
struct plan {
  std::uint64_t seed = 1;
  std::uint32_t workers = 1;
  std::uint32_t servers = 1;
  sim::scenario scenario{};
  adsp pacing{};
  duration end{};                ///< bodies end at the first step boundary from there on,
  std::vector<duration> ends{};  ///< or earlier, by rank
  losses told = losses::none;
  double pulling = 1;            ///< the chance that a step pulls

  [[nodiscard]] std::uint32_t workers_ever() const {
    return workers + static_cast<std::uint32_t>(scenario.joins.size());
  }
};

template <class T, std::size_t N>
T one_of(random_stream& random, std::array<T, N> const& choices) {
  return choices[static_cast<std::size_t>(random.below(N))];
}

sim::distribution random_bounded(random_stream& random) {
  switch (random.below(3)) {
    case 0:
      return sim::uniform{.low = 0.5, .high = 1.5};
    case 1:
      return sim::uniform{.low = 0, .high = 2};
    default:
      return {};
  }
}

double greatest(sim::distribution const& d, random_stream random) {
  if (d.is_constant()) return d.draw(random);
  return d == sim::uniform{.low = 0.5, .high = 1.5} ? 1.5 : 2.0;
}

/// Speeds up to 1:20; the slowest worker's step is a good part of the time between commits.
void choose_speeds(plan& p, random_stream& random) {
  auto& speed = p.scenario.speed;
  std::uint64_t const kind = random.below(4);
  double slowest = 1;
  for (std::uint32_t w = 0; w < p.workers_ever(); ++w) {
    double slowness = 1;
    if (kind == 1) slowness = w % 3 == 2 ? 3 : 1;
    if (kind == 2) slowness = std::pow(20, random.uniform());
    if (kind == 3) slowness = w == 0 ? 20 : 1;
    slowest = std::max(slowest, slowness);
    speed.slowness.push_back(slowness);
  }
  double const part = one_of(random, std::array{0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 0.95, 1.0, 1.5});
  double const interval = static_cast<double>(p.pacing.check_period.count()) /
                          static_cast<double>(p.pacing.first_rate);
  // Not too many events.
  double const step = std::max(interval * part / slowest,
                               static_cast<double>(p.pacing.check_period.count()) / 60);
  speed.work_cost = duration(static_cast<duration::rep>(step));
  speed.jitter = random.chance(0.5) ? random_bounded(random) : sim::distribution{};
  if (random.chance(0.2)) speed.random_slowdown = {.probability = 0.1, .factor = 3};
}

void choose_network(plan& p, random_stream& random) {
  auto& net = p.scenario.network;
  duration const period = p.pacing.check_period;
  if (random.chance(0.15)) {
    net.worker_link = {.latency = 0ns};
    return;
  }
  net.worker_link.latency = one_of(
      random, std::array<duration, 5>{0ns, 1us, period / 1000, period / 100, period / 25});
  net.worker_link.jitter = random_bounded(random);
  // At 100 kB/s a commit of some 500 bytes takes 5 ms.
  std::array<std::uint64_t, 5> const bandwidths{0, 0, 100'000, 1'000'000, 1'000'000'000};
  net.worker_link.bandwidth = one_of(random, bandwidths);
  net.server_bandwidth = one_of(random, bandwidths);
  if (random.chance(0.3)) p.scenario.server_delay = {one_of(
      random, std::array<duration, 3>{1us, period / 200, period / 40})};
}

void choose_trouble(plan& p, random_stream& random) {
  auto const sometime = [&] { return stretch(p.end, random.uniform()); };
  std::uint32_t const ever = p.workers_ever();
  for (std::uint32_t w = 0; w < ever; ++w)
    p.ends.push_back(random.chance(0.15) ? sometime() : p.end);
  if (random.chance(0.5))
    for (std::uint64_t n = 1 + random.below(3); n != 0; --n)
      p.scenario.speed.changes.push_back(
          {.worker = worker_id{static_cast<std::uint32_t>(random.below(ever))},
           .at = sometime(),
           .factor = one_of(random, std::array{1.5, 2.0, 3.0, 10.0, 20.0})});
  if (random.chance(0.3))
    for (std::uint32_t w = 0; w < ever; ++w)
      if (random.chance(0.2))
        p.scenario.crashes.push_back({.worker = worker_id{w}, .at = sometime()});
  p.scenario.detection_delay =
      one_of(random, std::array<duration, 3>{0ns, p.pacing.check_period / 7,
                                             3 * p.pacing.check_period});
}

plan random_plan(std::uint64_t seed) {
  random_stream random(seed, 0xad5);
  plan p;
  p.seed = seed;
  p.workers = 1 + static_cast<std::uint32_t>(random.below(12));
  p.servers = 1 + static_cast<std::uint32_t>(random.below(4));
  p.scenario.seed = seed;
  duration const period = one_of(random, std::array<duration, 4>{100ms, 1s, 333'333'333ns, 60s});
  bool const search = random.chance(0.35);
  duration const probe = period * (1 + static_cast<std::int64_t>(random.below(2)));
  p.pacing = {.check_period = period,
              .epoch = probe * (2 + static_cast<std::int64_t>(random.below(7))),
              .probe_period = probe,
              .first_rate = 1 + static_cast<std::int64_t>(random.below(search ? 2 : 5)),
              .search = search,
              .samples = 9 + random.below(28)};
  if (search) p.told = static_cast<losses>(random.below(3));
  p.end = stretch(period, 12 + 10 * random.uniform());
  p.pulling = one_of(random, std::array{1.0, 0.8, 0.2});
  if (random.chance(0.4))
    for (std::uint64_t n = 1 + random.below(3); n != 0; --n)
      p.scenario.joins.push_back({stretch(p.end, 0.7 * random.uniform())});
  choose_speeds(p, random);
  choose_network(p, random);
  choose_trouble(p, random);
  return p;
}

// ---- what a run came to

struct worker_state {
  bool there = false;  ///< its body runs
  std::int64_t commits = 0;
  std::uint64_t steps = 0;

  friend bool operator==(worker_state const&, worker_state const&) = default;
};

struct outcome {
  run_report report{};
  /// By checkpoint, from that at the end of the first period on: who had done what when all that
  /// happens up to then had happened.
  std::vector<std::vector<worker_state>> checkpoints{};
  std::vector<std::optional<time_point>> began{};  ///< by rank
  std::vector<std::int64_t> pushed{};              ///< the sum of what each worker pushed
  std::vector<std::int64_t> received{};            ///< and what is in the parameters
};

/// A loss that falls the faster the more is committed.
double loss_after(std::uint64_t updates, std::uint32_t workers) {
  return 1 / (0.5 + 0.02 * static_cast<double>(updates) / workers) + 0.1;
}

/// Says that a worker is there, until its body ends or is unwound.
struct presence {
  worker_state& state;

  explicit presence(worker_state& s) : state(s) { state.there = true; }
  presence(presence const&) = delete;
  presence& operator=(presence const&) = delete;
  ~presence() { state.there = false; }
};

template <protocol P, class Table>
outcome run(P const& protocol, plan const& p, Table table) {
  constexpr std::uint64_t events_max = 2'000'000;
  using value = typename Table::value_type;
  std::uint32_t const ever = p.workers_ever();
  cluster c{simulated{.workers = p.workers,
                      .servers = p.servers,
                      .scenario = p.scenario,
                      .stack_bytes = 64 * 1024},
            protocol, table};
  outcome result;
  result.began.resize(ever);
  result.pushed.resize(ever);
  std::vector<worker_state> now(ever);
  std::vector<worker_state> before = now;
  time_point checkpoint(p.pacing.check_period);
  std::uint64_t events = 0;
  c.runtime().on_event([&] {
    if (++events > events_max) throw std::runtime_error("the run does not end");
    for (; checkpoint < c.now(); checkpoint += p.pacing.check_period)
      result.checkpoints.push_back(before);
    before = now;
  });
  auto const body = [&](auto& w) {
    std::uint32_t const me = w.rank();
    presence const here(now[me]);
    result.began[me] = w.now();
    std::vector<value> all(rows * ever);
    std::vector<value> update(rows * ever);
    while (w.now() < time_point(p.ends[me])) {
      if (w.random().chance(p.pulling)) w.pull(all);
      for (std::size_t r = 0; r < rows; ++r) {
        auto const amount = static_cast<std::int64_t>(w.random().below(4));
        update[r * ever + me] = static_cast<value>(amount);
        result.pushed[me] += amount;
      }
      w.push(update);
      now[me].commits += w.step();
      ++now[me].steps;
      if (p.told == losses::reported) w.report_loss(loss_after(c.updates(), p.workers));
    }
    w.push(update);  // travels with the last commit
    for (std::size_t r = 0; r < rows; ++r)
      result.pushed[me] += static_cast<std::int64_t>(update[r * ever + me]);
  };
  result.report =
      p.told == losses::evaluated
          ? c.run(body, [&](auto const&) { return loss_after(c.updates(), p.workers); })
          : c.run(body);
  auto const& w = c.parameters();
  result.received.resize(ever);
  for (std::size_t i = 0; i < w.size(); ++i)
    result.received[i % ever] += static_cast<std::int64_t>(w[i]);
  return result;
}

outcome run(plan const& p) {
  return run(with(p.pacing, sum{}), p,
             counts{.rows = rows, .width = p.workers_ever(), .partition = {p.seed}});
}

// ---- the rules

/// The rules of rules §5 for one run. What a worker is able to is worked out from the scenario, and
/// on the safe side.
class judge {
 public:
  judge(plan const& p, outcome const& o) : plan_(p), outcome_(o) {
    std::int64_t target = 0;
    for (std::size_t k = 0; k <= o.checkpoints.size(); ++k) {
      targets_.push_back(target += rate(k));
      rates_max_.push_back(std::max(rate(k), k == 0 ? 0 : rates_max_.back()));
    }
  }

  /// R in the period that begins at checkpoint k.
  [[nodiscard]] std::int64_t rate(std::size_t k) const {
    std::int64_t r = 0;
    for (pace_change const& c : outcome_.report.pace_changes)
      if (c.at <= moment(k)) r = c.value;
    return r;
  }

  /// The k-th checkpoint; 0 is the start.
  [[nodiscard]] time_point moment(std::size_t k) const {
    return time_point(plan_.pacing.check_period * static_cast<std::int64_t>(k));
  }

  /// c_i at a checkpoint: a joiner starts on target. Nothing while it is not there.
  [[nodiscard]] std::optional<std::int64_t> commits(std::size_t k, std::uint32_t w) const {
    worker_state const& s = outcome_.checkpoints[k - 1][w];
    if (!s.there) return std::nullopt;
    if (w < plan_.workers) return s.commits;
    return s.commits + targets_[period_of_join(w)];
  }

  /// The number of commits that everybody is to have made by the k-th checkpoint.
  [[nodiscard]] std::int64_t target(std::size_t k) const { return targets_[k - 1]; }

  /// Whether a step, a commit and a pull have always fitted into the time between commits, Γ/R, up
  /// to checkpoint k.
  [[nodiscard]] bool able(std::size_t k, std::uint32_t w) const {
    duration const interval = plan_.pacing.check_period / rates_max_[k - 1];
    return longest_step(moment(k), w) + longest_exchange() < interval;
  }

 private:
  [[nodiscard]] std::size_t period_of_join(std::uint32_t w) const {
    // The conductor hears of it when all shards have answered; one round trip later it starts.
    duration const heard =
        outcome_.began[w]->since_start() - 2 * plan_.scenario.network.worker_link.latency;
    return static_cast<std::size_t>(heard / plan_.pacing.check_period);
  }

  [[nodiscard]] duration longest_step(time_point until, std::uint32_t w) const {
    auto const& speed = plan_.scenario.speed;
    double factor = 1;
    for (auto const& c : speed.changes)
      if (c.worker == worker_id{w} && time_point(c.at) <= until)
        factor = std::max(factor, c.factor);
    factor *= speed.slowness[w] * greatest(speed.jitter, random_stream(1));
    if (speed.random_slowdown.probability > 0) factor *= speed.random_slowdown.factor;
    return stretch(speed.work_cost, factor) + 1ns;
  }

  [[nodiscard]] duration longest_exchange() const {
    auto const& net = plan_.scenario.network;
    std::uint64_t const bytes =
        3 * (8 * rows * plan_.workers_ever() + plan_.servers * (net.header_bytes + 64));
    duration const own = sim::transfer_time(bytes, net.worker_link.bandwidth);
    duration const servers =
        sim::transfer_time(bytes * plan_.workers_ever(), net.server_bandwidth);
    duration delay{};
    for (duration const d : plan_.scenario.server_delay) delay = std::max(delay, d);
    double const jitter = std::max(1.0, greatest(net.worker_link.jitter, random_stream(1)));
    return own + servers + 2 * (delay + stretch(net.worker_link.latency, jitter)) + 4ns;
  }

  plan const& plan_;
  outcome const& outcome_;
  std::vector<std::int64_t> targets_;    ///< by period
  std::vector<std::int64_t> rates_max_;  ///< by period: the greatest rate so far
};

struct tally {
  std::uint64_t pairs = 0;    ///< of able workers that were compared
  std::uint64_t windows = 0;  ///< of ten periods
  std::uint64_t joiners = 0;  ///< able ones, at checkpoints
  std::uint64_t slowed = 0;   ///< workers that were slowed down and still able, at checkpoints
  std::uint64_t behind = 0;   ///< workers that were not able, at checkpoints
  std::uint64_t faster = 0;   ///< steps up of searches
  std::uint64_t crashes = 0;
};

bool was_slowed(plan const& p, std::uint32_t w, time_point t) {
  return std::ranges::any_of(p.scenario.speed.changes, [&](auto const& c) {
    return c.worker == worker_id{w} && time_point(c.at) <= t;
  });
}

/// ADSP-1: at each checkpoint able workers are at most one commit apart, and one behind the target.
void check_checkpoints(plan const& p, outcome const& o, judge const& j, tally& seen) {
  for (std::size_t k = 1; k <= o.checkpoints.size(); ++k) {
    INFO("checkpoint " << k);
    std::vector<std::int64_t> able;
    for (std::uint32_t w = 0; w < p.workers_ever(); ++w) {
      auto const c = j.commits(k, w);
      if (!c) continue;
      INFO("worker " << w << " has made " << *c << " commits, the target is " << j.target(k));
      REQUIRE(*c <= j.target(k));
      if (!j.able(k, w)) {
        ++seen.behind;
        continue;
      }
      able.push_back(*c);
      REQUIRE(*c >= j.target(k) - 1);
      seen.joiners += w >= p.workers;
      seen.slowed += was_slowed(p, w, j.moment(k));
    }
    if (able.empty()) continue;
    auto const [least, most] = std::ranges::minmax(able);
    REQUIRE(most - least <= 1);
    seen.pairs += able.size() * (able.size() - 1) / 2;
  }
}

/// ADSP-1b: over any ten periods of one rate an able worker makes 10R ± 1 commits.
void check_windows(plan const& p, outcome const& o, judge const& j, tally& seen) {
  for (std::size_t k = 0; k + 10 <= o.checkpoints.size(); ++k) {
    std::int64_t const r = j.rate(k);
    bool steady = true;
    for (std::size_t i = k; i < k + 10; ++i) steady = steady && j.rate(i) == r;
    if (!steady) continue;
    for (std::uint32_t w = 0; w < p.workers_ever(); ++w) {
      auto const last = j.commits(k + 10, w);
      auto const first = k == 0 ? (w < p.workers ? std::optional<std::int64_t>(0) : std::nullopt)
                                : j.commits(k, w);
      if (!first || !last || !j.able(k + 10, w)) continue;
      INFO("worker " << w << ", ten periods from checkpoint " << k);
      REQUIRE(std::abs(*last - *first - 10 * r) <= 1);
      ++seen.windows;
    }
  }
}

/// ADSP-2: the time that is not compute is communication, and without that nothing.
void check_waiting(plan const& p, outcome const& o) {
  auto const& net = p.scenario.network;
  bool const costs_nothing = net.worker_link.latency == 0ns && net.worker_link.bandwidth == 0 &&
                             net.server_bandwidth == 0 && p.scenario.server_delay.empty();
  for (auto const& w : o.report.workers) {
    REQUIRE(w.wait == 0ns);
    if (costs_nothing) REQUIRE(w.send == 0ns);
  }
}

/// No update of a worker that does not crash is lost, and none of the others counts twice.
void check_updates(plan const& p, outcome const& o) {
  for (std::uint32_t w = 0; w < p.workers_ever(); ++w) {
    INFO("worker " << w);
    if (std::ranges::count(p.scenario.crashes, worker_id{w}, &sim::crash::worker) != 0) {
      REQUIRE(o.received[w] <= o.pushed[w]);
    } else {
      REQUIRE(o.received[w] == o.pushed[w]);
    }
  }
}


// ---- ADACOMM

/// ADACOMM with intervals that may be shorter than a clock. Messages take a constant time: with
/// jitter the coordinator's orders may be the slow ones, and somebody begins a clock too early.
plan random_ada_plan(std::uint64_t seed) {
  random_stream random(seed, 0xada);
  plan p;
  p.seed = seed;
  p.workers = 1 + static_cast<std::uint32_t>(random.below(8));
  p.servers = 1 + static_cast<std::uint32_t>(random.below(3));
  p.scenario.seed = seed;
  p.pacing = {.check_period = 100ms, .first_rate = 1};
  p.end = 3s;
  p.pulling = one_of(random, std::array{1.0, 0.5});
  p.told = random.chance(0.5) ? losses::evaluated : losses::reported;
  if (random.chance(0.5))
    for (std::uint64_t n = 1 + random.below(3); n != 0; --n)
      p.scenario.joins.push_back({stretch(p.end, 0.9 * random.uniform())});
  auto& speed = p.scenario.speed;
  for (std::uint32_t w = 0; w < p.workers_ever(); ++w)
    speed.slowness.push_back(std::pow(8, random.uniform()));
  speed.work_cost = one_of(random, std::array<duration, 3>{1ms, 3ms, 10ms});
  speed.jitter = random_bounded(random);
  p.scenario.network.worker_link.latency =
      one_of(random, std::array<duration, 4>{0ns, 100us, 2ms, 20ms});
  if (random.chance(0.3)) p.scenario.server_delay = {5ms};
  choose_trouble(p, random);
  return p;
}

/// Steps by clock, as far as the pace ended it, and whose.
struct clock_lengths {
  std::map<std::int64_t, std::map<std::uint32_t, std::int64_t>> steps{};
  run_report report{};
};

clock_lengths run_ada(ada_comm const& protocol, plan const& p) {
  std::uint32_t const ever = p.workers_ever();
  cluster c{simulated{.workers = p.workers,
                      .servers = p.servers,
                      .scenario = p.scenario,
                      .stack_bytes = 64 * 1024},
            protocol, dense<double>{.rows = rows}};
  clock_lengths result;
  std::uint64_t events = 0;
  c.runtime().on_event([&] {
    if (++events > 2'000'000) throw std::runtime_error("the run does not end");
  });
  // Falls fast at first, rises now and then.
  auto const loss = [&] {
    double const t = to_seconds(c.now().since_start());
    return 0.01 + std::exp(-2 * t) + (std::fmod(t, 1.0) > 0.8 ? 0.5 : 0.0);
  };
  auto const body = [&](auto& w) {
    std::vector<double> all(rows);
    std::vector<double> const update(rows, 1.0);
    while (w.now() < time_point(p.ends[w.rank()])) {
      if (w.random().chance(p.pulling)) w.pull(all);
      w.push(update);
      std::int64_t const clock = w.clock().value();
      std::int64_t const steps = w.steps_since_commit() + 1;
      if (w.step()) result.steps[clock][w.rank()] = steps;
      if (p.told == losses::reported) w.report_loss(loss());
    }
  };
  result.report = p.told == losses::evaluated
                      ? c.run(body, [&](auto const&) { return loss(); })
                      : c.run(body);
  CHECK(result.report.workers.size() <= ever);
  return result;
}

// ---- one case at a time

using test::doubles, test::quiet, test::until;

double share_of_waiting(run_report const& r) {
  worker_metrics const all = r.total();
  return to_seconds(all.send + all.wait) / to_seconds(all.total());
}

}  // namespace


TEST_CASE("adsp: its rules hold in random runs, checked after every event", "[simulated][adsp]") {
  constexpr std::uint64_t usual = 1000;
  tally seen;
  for (std::uint64_t i = 0; i < test::seed_count(usual); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    plan const p = random_plan(seed);
    outcome const o = run(p);
    judge const j(p, o);
    check_checkpoints(p, o, j, seen);
    check_windows(p, o, j, seen);
    check_waiting(p, o);
    check_updates(p, o);
    for (pace_change const& c : o.report.pace_changes)
      seen.faster += std::string(c.reason) == "faster";
    seen.crashes += o.report.crashes;
  }
  // Runs in which nothing happens would prove nothing.
  std::uint64_t const n = test::seed_count(usual);
  if (n < 100) return;
  CHECK(seen.pairs > 100 * n);
  CHECK(seen.windows > 10 * n);
  CHECK(seen.joiners > 2 * n);
  CHECK(seen.slowed > n);
  CHECK(seen.behind > 20 * n);
  CHECK(seen.faster > n / 2);
  CHECK(seen.crashes > n / 4);
}

TEST_CASE("adsp: the same seed gives the same run", "[simulated][adsp]") {
  for (std::uint64_t i = 0; i < test::seed_count(100); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    plan const p = random_plan(seed);
    outcome const one = run(p);
    outcome const other = run(p);
    REQUIRE(one.report.events == other.report.events);
    REQUIRE(one.report.elapsed == other.report.elapsed);
    REQUIRE(one.report.pace_changes == other.report.pace_changes);
    REQUIRE(one.checkpoints == other.checkpoints);
    REQUIRE(one.received == other.received);
  }
}

TEST_CASE("adsp: its pace goes with DynSGD's merge, and keeps its rules where nobody is held up",
          "[simulated][adsp][dyn_sgd]") {
  constexpr std::uint64_t usual = 300;
  tally seen;
  std::uint64_t held_up = 0;
  for (std::uint64_t i = 0; i < test::seed_count(usual); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    plan p = random_plan(seed);
    bool const smooth = seed % 2 == 0;
    if (smooth) {
      p.scenario.crashes.clear();
      p.scenario.speed.changes.clear();
      p.scenario.speed.work_cost /= 4;
    }
    // A joiner starts at the slowest one's clock, and stays there until the next checkpoint.
    std::int64_t const s =
        smooth ? 20 : static_cast<std::int64_t>(random_stream(seed, 0xd7).below(5));
    outcome const o = run(with(dyn_sgd{.staleness = s}, p.pacing.pace()), p,
                          multi_version{dense<double, merge_of_protocol, testing::scattered>{
                              .rows = rows, .width = p.workers_ever(), .partition = {p.seed}}});
    judge const j(p, o);
    std::size_t const last = o.checkpoints.size();
    bool all_able = smooth;
    for (std::uint32_t w = 0; w < p.workers_ever() && last != 0; ++w)
      all_able = all_able && j.able(last, w);
    held_up += o.report.total().wait > 0ns;
    if (o.report.crashes == 0) REQUIRE(o.report.servers.refused == 0);
    if (!all_able) continue;
    check_checkpoints(p, o, j, seen);
    check_windows(p, o, j, seen);
    check_waiting(p, o);
  }
  if (test::seed_count(usual) < 100) return;
  CHECK(seen.pairs > 10 * test::seed_count(usual));
  CHECK(held_up > test::seed_count(usual) / 10);
}

TEST_CASE("ada_comm: all workers make the same number of steps in each clock, however it changes",
          "[simulated][ada_comm]") {
  constexpr std::uint64_t usual = 400;
  std::uint64_t changes = 0;
  std::uint64_t compared = 0;
  for (std::uint64_t i = 0; i < test::seed_count(usual); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    plan const p = random_ada_plan(seed);
    random_stream random(seed, 0xadac);
    ada_comm const protocol{
        .first_steps = 1 + static_cast<std::int64_t>(random.below(40)),
        .interval = one_of(random, std::array<duration, 4>{7ms, 40ms, 150ms, 600ms}),
        .gamma = one_of(random, std::array{0.5, 0.9})};
    auto const o = run_ada(protocol, p);
    std::vector<std::int64_t> given;
    for (pace_change const& c : o.report.pace_changes) given.push_back(c.value);
    auto place = given.begin();
    for (auto const& [clock, by_worker] : o.steps) {
      INFO("clock " << clock);
      std::int64_t const steps = by_worker.begin()->second;
      for (auto const& [w, n] : by_worker) {
        INFO("worker " << w << " made " << n << " steps, worker " << by_worker.begin()->first
                       << " made " << steps);
        REQUIRE(n == steps);
      }
      // Clock by clock it is what was decided, in that order; nothing else.
      place = std::find(place, given.end(), steps);
      REQUIRE(place != given.end());
      compared += by_worker.size() - 1;
    }
    changes += given.size() - 1;
    if (o.report.crashes == 0) REQUIRE(o.report.servers.refused == 0);
  }
  if (test::seed_count(usual) < 100) return;
  CHECK(changes > 3 * test::seed_count(usual));
  CHECK(compared > 50 * test::seed_count(usual));
}

TEST_CASE("fixed_ada_comm: it is BSP that averages after so many steps, bit for bit; with one step "
          "it is BSP",
          "[simulated][ada_comm]") {
  auto const rules = testing::strict_rules(0);
  for (std::uint64_t i = 0; i < test::seed_count(150); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto schedule = testing::random_schedule(seed);
    schedule.commits_by_hand = false;
    std::int64_t const steps = 1 + static_cast<std::int64_t>(seed % 4);
    auto const one = testing::observed_run(fixed_ada_comm{.steps = steps}, schedule, rules);
    INFO("broken rules:" << test::lines(one.violations));
    REQUIRE(one.violations.empty());
    REQUIRE(same_run(one, testing::observed_run(with(bsp{}, every{steps}), schedule, rules)));
    if (steps == 1) REQUIRE(same_run(one, testing::observed_run(bsp{}, schedule, rules)));
  }
}

TEST_CASE("adsp: who is slowed down commits as often as before, with fewer steps; who cannot any "
          "more commits at every step, and catches up when it can",
          "[simulated][adsp]") {
  constexpr std::uint32_t workers = 3;
  plan p{.workers = workers, .scenario = quiet(workers), .end = 60s};
  p.pacing = {.check_period = 1s, .first_rate = 4, .search = false};
  p.ends.assign(workers, p.end);
  p.scenario.speed.slowness = {1, 1, 3};
  auto const from = [](duration t, double factor) {
    return sim::slowness_change{.worker = worker_id{0}, .at = t, .factor = factor};
  };
  // 10 ms, 50 ms, and 500 ms, which is twice the time between commits.
  p.scenario.speed.changes = {from(20s, 5), from(40s, 50), from(50s, 1)};
  outcome const o = run(p);
  REQUIRE(o.checkpoints.size() >= 59);
  auto const commits_of = [&](std::size_t w, std::size_t k, std::size_t l) {
    return o.checkpoints[l - 1][w].commits - o.checkpoints[k - 1][w].commits;
  };
  auto const steps_of = [&](std::size_t w, std::size_t k, std::size_t l) {
    return o.checkpoints[l - 1][w].steps - o.checkpoints[k - 1][w].steps;
  };
  for (std::size_t k = 1; k + 10 <= 39; ++k)
    for (std::size_t w = 0; w < workers; ++w)
      CHECK(std::abs(commits_of(w, k, k + 10) - 40) <= 1);
  CHECK(steps_of(0, 10, 19) == 9 * 100);
  CHECK(steps_of(0, 22, 39) == 17 * 20);
  CHECK(steps_of(0, 42, 49) == 7 * 2);
  CHECK(commits_of(0, 42, 49) == 7 * 2);
  for (std::size_t w = 1; w < workers; ++w) CHECK(std::abs(commits_of(w, 40, 50) - 40) <= 1);
  CHECK(steps_of(1, 10, 50) == 40 * 100);
  for (std::size_t k = 52; k <= 59; ++k) {
    INFO("checkpoint " << k);
    auto const& now = o.checkpoints[k - 1];
    CHECK(std::abs(now[0].commits - now[1].commits) <= 1);
  }
}

TEST_CASE("adsp: who is always one behind, its steps as long as the rate allows, is never two "
          "behind",
          "[simulated][adsp]") {
  // Steps of 450 ms, a commit each 500 ms: were the quota of who is one behind spread over the
  // period, with the overdue commit, the time between them was a third of it.
  for (std::int64_t rate = 1; rate <= 8; ++rate) {
    plan p{.workers = 2, .scenario = quiet(2), .end = 50s};
    p.pacing = {.check_period = 1s, .first_rate = rate, .search = false};
    p.ends.assign(2, p.end);
    p.scenario.speed.work_cost = stretch(1s, 0.9 / static_cast<double>(rate));
    p.scenario.speed.slowness = {1, 0.05};
    outcome const o = run(p);
    REQUIRE(o.checkpoints.size() >= 49);
    for (std::size_t k = 1; k <= 49; ++k) {
      INFO("rate " << rate << ", checkpoint " << k);
      for (auto const& w : o.checkpoints[k - 1]) {
        CHECK(w.commits <= rate * static_cast<std::int64_t>(k));
        CHECK(w.commits >= rate * static_cast<std::int64_t>(k) - 1);
      }
    }
  }
}

TEST_CASE("adsp: at speeds 1:1:3 and commits that take 5% of their interval it waits and sends for "
          "7% of its time at most, BSP for more than half (003 Fig. 1)",
          "[simulated][adsp]") {
  sim::scenario scenario{.speed = {.work_cost = 1s, .slowness = {1, 1, 3}},
                         .network = {.worker_link = {.latency = 1500ms}}};
  auto const body = until(3600s);
  cluster paced{simulated{.workers = 3, .scenario = scenario}, adsp{.search = false},
                dense<double>{.rows = 2}};
  auto const report = paced.run(body);
  CHECK(share_of_waiting(report) <= 0.07);
  for (auto const& w : report.workers) CHECK(std::abs(static_cast<int>(w.commits) - 60) <= 1);
  cluster in_step{simulated{.workers = 3, .scenario = scenario}, bsp{}, dense<double>{.rows = 2}};
  CHECK(share_of_waiting(in_step.run(body)) > 0.5);
}

TEST_CASE("adsp: a commit starts as much earlier as commits and pulls take, at a step boundary",
          "[simulated][adsp]") {
  // A pull takes 2 s, commits are due each 10 s.
  sim::scenario scenario = quiet();
  scenario.network.worker_link.latency = 1s;
  cluster c{simulated{.workers = 1, .scenario = scenario},
            adsp{.check_period = 10s, .search = false}, dense<double>{.rows = 2}};
  std::vector<duration> moments;
  c.run([&](auto& w) {
    doubles all(2);
    doubles const one(2, 1.0);
    while (w.now() < time_point(300s)) {
      w.pull(all);
      w.push(one);
      if (w.step()) moments.push_back(w.now().since_start());
    }
  });
  REQUIRE(moments.size() >= 29);
  for (std::size_t n = 25; n < 29; ++n) {
    duration const due = static_cast<std::int64_t>(n + 1) * 10s;
    CHECK(moments[n] >= due - 2s);
    CHECK(moments[n] < due - 2s + 20ms);
  }
}
